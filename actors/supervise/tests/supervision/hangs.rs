//! Children that hang beyond their deadline and cannot be dropped.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
    mpsc,
};

use crate::probe::*;
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    ChildSpec, Command, Exit, Factory, StartCx, State, StateChange, Strategy, SupervisorSpec,
    testing::{TestTree, eventually},
};

fn spec() -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient())
}

/// A thread that ends only when the sender is dropped; counts how many run at once, and the maximum.
fn unstoppable_thread(running: Arc<(AtomicUsize, AtomicUsize)>) -> (mpsc::Sender<()>, Factory) {
    let (release, hold) = mpsc::channel::<()>();
    let hold = Mutex::new(hold);
    let thread = Factory::thread(move |cx: StartCx| {
        let now = running.0.fetch_add(1, SeqCst) + 1;
        running.1.fetch_max(now, SeqCst);
        let _work = cx.vitals.begin_work("checkpoint");
        let _ = hold.lock().unwrap().recv();
        running.0.fetch_sub(1, SeqCst);
        orchestrator_supervise::block_on(None, cx.stop.cancelled());
        Ok(())
    });
    (release, thread)
}

#[test]
fn a_hung_thread_is_stuck_and_never_started_twice() {
    let running = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let (release, thread) = unstoppable_thread(running.clone());
    let child = ChildSpec::worker("a", thread).shutdown(deadline(10));
    TestTree::run(spec().child(child), async |tree| {
        eventually("it works", || tree.node("a").unwrap().in_progress.is_some()).await;
        let stopped = tree.command("a", Command::Stop, &origin()).await.unwrap();
        assert_eq!(stopped, StateChange { before: State::Running, after: State::Stuck, acts_later: false });
        let node = tree.node("a").unwrap();
        assert!(node.stuck && node.in_progress.unwrap().name == "checkpoint", "it shows what it is stuck in");
        let exit = node.last_exit.unwrap();
        assert_eq!((exit.kind.as_str(), exit.in_progress.as_deref()), ("killed", Some("checkpoint")));
        // The start waits for the end of the old thread.
        let release = async {
            assert_eq!(state(&tree, "a"), "stuck");
            drop(release);
        };
        tokio::join!(command(&tree, "a", Command::Start), release);
        assert_eq!((state(&tree, "a").as_str(), tree.node("a").unwrap().incarnation), ("running", 2));
        assert_eq!(running.1.load(SeqCst), 1, "never two at once");
    });
}

#[test]
fn a_hung_thread_does_not_delay_the_stop() {
    actix_rt::System::new().block_on(async {
        let journal = Journal::default();
        let running = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let (release, thread) = unstoppable_thread(running);
        let child = ChildSpec::worker("b", thread).shutdown(deadline(10));
        let mut tested = TestTree::start(spec().child(journaling("a", &journal).1).child(child)).await;
        let tree = tested.root().tree().clone();
        eventually("it works", || tree.node("b").unwrap().in_progress.is_some()).await;
        assert_eq!(tested.root().stop().await, Exit::Shutdown);
        assert_eq!((state(&tree, "b").as_str(), journal.count("a stopped")), ("stuck", 1));
        drop(release);
        until_state(&tree, "b", "stopped").await;
        tested.stop().await;
    });
}

/// An actor with a handler that blocks is reported, and the other children stop.
#[test]
fn a_blocked_arbiter_does_not_delay_the_stop() {
    actix_rt::System::new().block_on(async {
        let journal = Journal::default();
        let (mailbox, blocked) = journaling("b", &journal);
        let blocked = blocked.placement(orchestrator_supervise::Placement::Dedicated).shutdown(deadline(1));
        let mut tested = TestTree::start(spec().child(journaling("a", &journal).1).child(blocked)).await;
        let tree = tested.root().tree().clone();
        let (release, hold) = mpsc::channel::<()>();
        mailbox.tell(act(move |_, _| hold.recv().unwrap_or_default())).unwrap();
        mailbox.tell(Ping(1)).unwrap();
        eventually("it blocks", || mailbox.depth() == 1).await;
        assert_eq!(tested.root().stop().await, Exit::Shutdown);
        assert_eq!((state(&tree, "b").as_str(), journal.count("a stopped")), ("stuck", 1));
        let stop_timed_out = EventKind::StopTimedOut { depth: 1, in_progress: Some("Do".to_owned()) };
        assert!(events(&tree, "test/b").contains(&stop_timed_out));
        drop(release);
        until_state(&tree, "b", "stopped").await;
        tested.stop().await;
    });
}
