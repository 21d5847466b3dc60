//! Stops drain, sources first, each within its deadline; what is left is dropped and reported.

use std::{
    sync::{Mutex, atomic::Ordering::SeqCst, mpsc},
    time::{Duration, Instant},
};

use crate::probe::*;
use orchestrator_supervise::{
    ChildSpec, Command, EventKind, Factory, Shutdown, SpecError, StartCx, Strategy, SupervisorSpec,
    testing::{TestTree, eventually},
};
use tokio::sync::oneshot;

fn spec() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient())
}

#[test]
fn sources_stop_first_and_what_they_sent_is_drained() {
    let journal = Journal::default();
    let (sink, sink_child) = noting("sink", &journal);
    let (worker, worker_child) = noting("worker", &journal);
    let (source, source_child) = noting("source", &journal);
    let inner = spec().child(worker_child).child(source_child);
    let spec = spec().child(sink_child).child(ChildSpec::supervisor("inner", inner));
    TestTree::run(spec, async |_| {
        for n in 0..20 {
            let (worker, sink) = (worker.clone(), sink.clone());
            let pass_on = act(move |_, _| sink.tell(Ping(n)).unwrap());
            source.tell(act(move |_, _| worker.tell(pass_on).unwrap())).unwrap();
        }
    });
    let lines = journal.lines();
    let at = |line: &str| lines.iter().position(|other| other == line).unwrap();
    assert!(at("sink started") < at("worker started") && at("worker started") < at("source started"));
    assert!(at("source dropped") < at("worker stopped") && at("worker dropped") < at("sink stopped"));
    assert!((0..20).all(|n| at(&format!("sink {n}")) < at("sink stopped")), "{lines:?}");
}

#[test]
fn what_is_left_at_the_deadline_is_dropped_and_reported() {
    let journal = Journal::default();
    let (mailbox, child) = noting("a", &journal);
    TestTree::run(spec().child(child.shutdown(deadline(10))), async |tree| {
        mailbox.tell(Do(Box::new(|_, cx| cx.atomically(std::future::pending(), |_, (), _| ())))).unwrap();
        (0..2).for_each(|n| mailbox.tell(Ping(n)).unwrap());
        eventually("one is in hand", || mailbox.depth() == 2).await;
        command(&tree, "a", Command::Stop).await;
        let stop_timed_out = EventKind::StopTimedOut { depth: 2, in_progress: Some("Do".to_owned()) };
        assert!(events(&tree, "test/a").contains(&stop_timed_out));
        let exit = tree.node("a").unwrap().last_exit.unwrap();
        assert_eq!((exit.kind.as_str(), exit.in_progress.as_deref()), ("killed", Some("Do")));
        assert_eq!(journal.lines(), ["a started", "a dropped"]);
    });
}

#[test]
fn a_brutal_kill_asks_nothing() {
    let journal = Journal::default();
    let (_mailbox, child) = noting("a", &journal);
    TestTree::run(spec().child(child.shutdown(Shutdown::Kill)), async |_| {});
    assert_eq!(journal.lines(), ["a started", "a dropped"]);
}

/// The last message of a drain is answered before the end, also when its answer takes time.
#[test]
fn a_drain_waits_for_the_answer_under_way() {
    let (mailbox, child) = noting("a", &Journal::default());
    TestTree::run(spec().child(child.shutdown(Shutdown::After(LONG))), async |tree| {
        let (open, opened) = oneshot::channel::<()>();
        let first = Do(Box::new(|_, cx| cx.atomically(opened, |_, _, _| ())));
        let last = Do(Box::new(|_, cx| cx.atomically(tokio::task::yield_now(), |_, (), _| ())));
        let stop = async {
            eventually("the last one waits", || mailbox.depth() == 1).await;
            let release = async {
                until_state(&tree, "a", "stopping").await;
                drop(open);
            };
            tokio::join!(command(&tree, "a", Command::Stop), release);
        };
        let (first, last, ()) = tokio::join!(mailbox.ask(first, LONG), mailbox.ask(last, LONG), stop);
        assert_eq!((first, last), (Ok(()), Ok(())));
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, "shutdown");
    });
}

/// `drained` is asked again when a future of the child has run, even if nothing else happens any more.
#[test]
fn a_drain_waits_for_work_that_was_begun_and_notices_its_end() {
    let habits = Habits::default();
    let (mailbox, child) = probe("a", &habits);
    TestTree::run(spec().child(child.shutdown(Shutdown::After(LONG))), async |tree| {
        let (open, opened) = oneshot::channel::<()>();
        let busy = habits.busy.clone();
        busy.store(true, SeqCst);
        let work = async move {
            let _ = opened.await;
            busy.store(false, SeqCst);
        };
        mailbox.ask(act(|_, cx| cx.spawn(work, |_, (), _| ())), LONG).await.unwrap();
        let begun = Instant::now();
        let release = async {
            until_state(&tree, "a", "stopping").await;
            drop(open);
        };
        tokio::join!(command(&tree, "a", Command::Stop), release);
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, "shutdown");
        assert!(begun.elapsed() < LONG / 2, "it was not the deadline that ended it");
    });
}

#[test]
fn a_pool_stops_under_one_deadline() {
    let (limit, count) = (Duration::from_millis(100), 40);
    let pool = ChildSpec::pool("pool", count, |_| Factory::task(|_| std::future::pending()));
    TestTree::run(spec().child(pool.shutdown(Shutdown::After(limit))), async |tree| {
        let begun = Instant::now();
        command(&tree, "pool", Command::Stop).await;
        let took = begun.elapsed();
        assert!(took >= limit && took < limit * 10, "{took:?} for {count} members");
        let reports = tree.events(0);
        let orphans = reports.iter().filter(|event| matches!(event.kind, EventKind::StopTimedOut { .. }));
        assert_eq!(orphans.count(), count);
    });
}

/// Work that waits for the child that failed would never end. A member of a pool stands for a nested supervisor.
#[test]
fn siblings_of_a_failed_child_drain_for_a_second_at_most() {
    let (mailbox, failing) = noting("store", &Journal::default());
    let habits = Habits::default();
    habits.busy.store(true, SeqCst);
    let (_worker, busy) = probe("worker", &habits);
    let pool = ChildSpec::pool("pool", 3, |_| {
        Factory::task(|cx| async move {
            if cx.incarnation == 1 {
                std::future::pending::<()>().await;
            }
            cx.stop.cancelled().await;
            Ok(())
        })
    });
    let tree = SupervisorSpec::new(Strategy::RestForOne)
        .limits(lenient())
        .child(failing)
        .child(pool.shutdown(Shutdown::After(LONG)))
        .child(busy.shutdown(Shutdown::After(LONG)));
    TestTree::run(tree, async |tree| {
        mailbox.tell(boom()).unwrap();
        let begun = Instant::now();
        for path in ["store", "pool/2", "worker"] {
            until_incarnation(&tree, path, 2).await;
        }
        assert!(begun.elapsed() < LONG / 2, "they did not wait for their own deadline");
        habits.busy.store(false, SeqCst);
    });
}

/// Sends its word when it is dropped.
struct Tell(mpsc::Sender<&'static str>);

impl Drop for Tell {
    fn drop(&mut self) {
        self.0.send("task").unwrap();
    }
}

/// Both when the system runs on after the root is dropped, and when it ends at the same moment.
#[test]
fn dropping_the_root_ends_actors_tasks_and_threads() {
    for system_runs_on in [true, false] {
        let journal = Journal::default();
        let (done, ended) = mpsc::channel::<&str>();
        let sent = Mutex::new(done.clone());
        let thread = Factory::thread(move |cx: StartCx| {
            orchestrator_supervise::block_on(None, cx.stop.cancelled());
            sent.lock().unwrap().send("thread").unwrap();
            Ok(())
        });
        let task = Factory::task(move |_| {
            let tell = Tell(done.clone());
            async move {
                let _tell = tell;
                std::future::pending().await
            }
        });
        let spec = spec()
            .child(noting("actor", &journal).1)
            .child(ChildSpec::worker("task", task))
            .child(ChildSpec::worker("thread", thread));
        actix_rt::System::new().block_on(async {
            drop(TestTree::start(spec).await);
            if system_runs_on {
                eventually("the actor is gone", || journal.count("actor dropped") == 1).await;
            }
        });
        let mut gone = [ended.recv_timeout(LONG).unwrap(), ended.recv_timeout(LONG).unwrap()];
        gone.sort_unstable();
        assert_eq!(gone, ["task", "thread"]);
    }
}

#[test]
fn deadlines_belong_to_workers() {
    let endless = spec().child(ChildSpec::worker("a", idle_task()).shutdown(Shutdown::Infinity));
    let hasty = spec().child(ChildSpec::supervisor("b", spec()).shutdown(deadline(5)));
    for (spec, path) in [(endless, "test/a"), (hasty, "test/b")] {
        let SpecError { path: found, text } = spec.validate("test").unwrap_err();
        assert!(found == path && text.contains("deadline"), "{text}");
    }
}
