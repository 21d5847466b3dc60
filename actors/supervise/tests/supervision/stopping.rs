//! Stops: order, drain and deadlines.

use std::{
    sync::{Mutex, atomic::Ordering::SeqCst, mpsc},
    time::{Duration, Instant},
};

use crate::probe::*;
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    ChildSpec, Command, Factory, Origin, Shutdown, SpecError, StartCx, Strategy, SupervisorSpec,
    testing::{TestTree, eventually},
};
use tokio::sync::oneshot;

fn spec() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient())
}

#[test]
fn sources_stop_first_and_their_messages_are_handled() {
    let journal = Journal::default();
    let (sink, sink_child) = journaling("sink", &journal);
    let (worker, worker_child) = journaling("worker", &journal);
    let (source, source_child) = journaling("source", &journal);
    let inner = spec().child(worker_child.sends_to(&sink)).child(source_child.sends_to(&worker));
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
fn unhandled_messages_at_the_deadline_are_reported() {
    let journal = Journal::default();
    let (mailbox, child) = journaling("a", &journal);
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

/// The last message of a drain is answered before the end, also by an atomic answer.
#[test]
fn a_drain_waits_for_the_answer_in_progress() {
    let (mailbox, child) = journaling("a", &Journal::default());
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

/// `drained` is called again after a future of the child has run.
#[test]
fn a_drain_waits_for_the_childs_own_work() {
    let config = ProbeConfig::default();
    let (mailbox, child) = probe("a", &config);
    TestTree::run(spec().child(child.shutdown(Shutdown::After(LONG))), async |tree| {
        let (open, opened) = oneshot::channel::<()>();
        let busy = config.busy.clone();
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

/// A failed child and a stopped one do not wait for a sibling that drains, if the strategy does not connect
/// them.
#[test]
fn a_drain_delays_no_sibling_of_one_for_one() {
    let config = ProbeConfig::default();
    let (slow, slow_child) = probe("slow", &config);
    let (failing, failing_child) = journaling("failing", &Journal::default());
    let (_other, other_child) = journaling("other", &Journal::default());
    let spec = spec().child(other_child).child(failing_child);
    TestTree::run(spec.child(slow_child.shutdown(Shutdown::After(2 * LONG))), async |tree| {
        let (open, opened) = oneshot::channel::<()>();
        let busy = config.busy.clone();
        busy.store(true, SeqCst);
        let work = async move {
            let _ = opened.await;
            busy.store(false, SeqCst);
        };
        slow.ask(act(|_, cx| cx.spawn(work, |_, (), _| ())), LONG).await.unwrap();
        let meanwhile = async {
            until_state(&tree, "slow", "stopping").await;
            failing.tell(boom()).unwrap();
            until_incarnation(&tree, "failing", 2).await;
            command(&tree, "other", Command::Stop).await;
            assert_eq!(state(&tree, "slow"), "stopping");
            drop(open);
        };
        tokio::join!(command(&tree, "slow", Command::Stop), meanwhile);
    });
}

#[test]
fn a_pool_stops_within_one_deadline() {
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

/// Ends a tree with `limit`; returns how long it took.
async fn stop_within(tree: &mut TestTree, limit: Duration) -> Duration {
    let begun = Instant::now();
    tree.root().request_stop(limit);
    tree.root().wait().await;
    begun.elapsed()
}

#[test]
fn independent_branches_stop_side_by_side_and_before_the_workers() {
    let (journal, config) = (Journal::default(), ProbeConfig::default());
    config.busy.store(true, SeqCst);
    let (slow, slow_child) = probe("slow", &config);
    let branch = |id: &str, child: ChildSpec| ChildSpec::supervisor(id, spec().child(child));
    let spec = spec()
        .independent_branches()
        .child(journaling("worker", &journal).1)
        .child(branch("first", journaling("quick", &journal).1))
        .child(branch("second", slow_child.shutdown(Shutdown::After(LONG))));
    actix_rt::System::new().block_on(async {
        let mut tree = TestTree::start(spec).await;
        let handle = tree.root().tree().clone();
        tree.root().request_stop(LONG);
        // The second branch is asked first, and does not end.
        until_state(&handle, "first/quick", "stopped").await;
        let states = ["second/slow", "worker"].map(|path| state(&handle, path));
        assert_eq!(states, ["stopping", "running"]);
        config.busy.store(false, SeqCst);
        // A message makes the probe look again.
        slow.tell(Ping(0)).unwrap();
        tree.root().wait().await;
    });
}

/// A slow source leaves no time to the sink before the deadline, but a moment after it.
#[test]
fn at_the_deadline_of_the_root_all_that_is_left_stops_at_once_and_is_reported() {
    let (journal, config) = (Journal::default(), ProbeConfig::default());
    config.busy.store(true, SeqCst);
    let slow = |id: &str| probe(id, &config).1.shutdown(Shutdown::After(LONG));
    let inner = SupervisorSpec::new(Strategy::RestForOne)
        .limits(lenient())
        .child(journaling("sink", &journal).1)
        .child(slow("middle"))
        .child(slow("source"));
    actix_rt::System::new().block_on(async {
        let mut tree = TestTree::start(spec().child(ChildSpec::supervisor("inner", inner))).await;
        let took = stop_within(&mut tree, Duration::from_millis(200)).await;
        assert!(took < LONG / 2, "{took:?}");
        assert_eq!(journal.lines(), ["sink started", "sink stopped", "sink dropped"], "it drained");
        let tree = tree.root().tree().clone();
        for (path, kind) in
            [("inner/source", "killed"), ("inner/middle", "killed"), ("inner/sink", "shutdown")]
        {
            assert_eq!(tree.node(path).unwrap().last_exit.unwrap().kind, kind, "{path}");
        }
        let events = tree.events(0);
        let reports = events.iter().filter(|event| matches!(event.kind, EventKind::StopTimedOut { .. }));
        let mut late: Vec<_> = reports.map(|event| event.path.to_string()).collect();
        late.sort();
        assert_eq!(late, ["test/inner/middle", "test/inner/source"]);
    });
}

/// The drain of a command is cut short, too.
#[test]
fn a_child_that_stops_already_learns_the_deadline() {
    let config = ProbeConfig::default();
    config.busy.store(true, SeqCst);
    let (_slow, child) = probe("slow", &config);
    actix_rt::System::new().block_on(async {
        let mut tree = TestTree::start(spec().child(child.shutdown(Shutdown::After(LONG)))).await;
        let handle = tree.root().tree().clone();
        handle.request_restart("slow", &Origin::default()).unwrap();
        until_state(&handle, "slow", "stopping").await;
        let took = stop_within(&mut tree, Duration::from_millis(100)).await;
        assert!(took < LONG / 2, "{took:?}");
    });
}

/// A sibling's own work may wait for the failed child for ever.
#[test]
fn siblings_of_a_failed_child_drain_for_at_most_a_second() {
    let (mailbox, failing) = journaling("store", &Journal::default());
    let config = ProbeConfig::default();
    config.busy.store(true, SeqCst);
    let (_worker, busy) = probe("worker", &config);
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
        config.busy.store(false, SeqCst);
    });
}

/// Sends a word when dropped.
struct Tell(mpsc::Sender<&'static str>);

impl Drop for Tell {
    fn drop(&mut self) {
        self.0.send("task").unwrap();
    }
}

/// Once while the system continues after the root is dropped, and once when it ends at the same moment.
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
            .child(journaling("actor", &journal).1)
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
fn only_workers_have_deadlines() {
    let endless = spec().child(ChildSpec::worker("a", idle_task()).shutdown(Shutdown::Infinity));
    let hasty = spec().child(ChildSpec::supervisor("b", spec()).shutdown(deadline(5)));
    for (spec, path) in [(endless, "test/a"), (hasty, "test/b")] {
        let SpecError { path: found, text } = spec.validate("test").unwrap_err();
        assert!(found == path && text.contains("deadline"), "{text}");
    }
}
