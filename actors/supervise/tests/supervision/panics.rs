//! Panics of children: only the child ends, its exit names panic and work in progress, and it is restarted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::probe::*;
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    AskError, ChildSpec, Command, Factory, Fault, StartCx, Strategy, SupervisorSpec, mailbox,
    testing::TestTree,
};

fn tree(child: ChildSpec) -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient()).child(child)
}

/// Does `action`; expects one panic `boom` with `in_progress`, and a new incarnation that answers.
fn heals(action: Do, in_progress: Option<&'static str>) {
    let journal = Journal::default();
    let (mailbox, child) = journaling("a", &journal);
    TestTree::run(tree(child), async |tree| {
        mailbox.tell(action).unwrap();
        until_incarnation(&tree, "test/a", 2).await;
        assert_eq!(ping(&mailbox, 1).await, Ok(2));
        let exit = tree.node("test/a").unwrap().last_exit.unwrap();
        assert_eq!((exit.reason.as_str(), exit.in_progress.as_deref()), ("panicked: boom", in_progress));
        // Also after a panic, the old instance gets `stopped` and is dropped before the next one starts.
        let begin = ["a started", "a stopped", "a dropped", "a started", "a 1"];
        assert_eq!(journal.lines(), begin);
    });
}

#[test]
fn in_a_handler() {
    heals(boom(), Some("Do"));
}

#[test]
fn in_a_handler_with_a_named_work_item() {
    let action = act(|_, cx| {
        let _part = cx.vitals().begin_work("part");
        panic!("boom");
    });
    heals(action, Some("Do"));
}

#[test]
fn in_a_spawned_future() {
    heals(act(|_, cx| cx.spawn(async { panic!("boom") }, |_, (), _| ())), None);
}

#[test]
fn after_a_spawned_future() {
    heals(act(|_, cx| cx.spawn(async {}, |_, (), _| panic!("boom"))), None);
}

#[test]
fn in_a_timer() {
    heals(act(|_, cx| cx.after(Duration::from_millis(1), |_, _| panic!("boom"))), None);
}

#[test]
fn in_a_repeated_timer() {
    heals(act(|_, cx| cx.every(Duration::from_millis(1), |_, _| panic!("boom"))), None);
}

#[test]
fn in_an_atomic_answer() {
    let action = Do(Box::new(|_, cx| cx.atomically(tokio::task::yield_now(), |_, (), _| panic!("boom"))));
    heals(action, Some("Do"));
}

#[test]
fn in_started_and_in_the_factory() {
    static STARTS: AtomicU64 = AtomicU64::new(0);
    let (mailbox, slot) = mailbox::<Probe>(4);
    let config = ProbeConfig {
        on_start: Some(|_| assert_ne!(STARTS.load(SeqCst), 2, "boom")),
        ..ProbeConfig::default()
    };
    let child = ChildSpec::worker(
        "a",
        Factory::actor(slot, move |_| -> Result<Probe, Fault> {
            let start = STARTS.fetch_add(1, SeqCst) + 1;
            assert_ne!(start, 3, "factory boom");
            if start == 4 {
                return Err(Fault::new("no room"));
            }
            Ok(Probe { name: "a".to_owned(), config: config.clone() })
        }),
    );
    TestTree::run(tree(child), async |tree| {
        assert_eq!(mailbox.ask(boom(), LONG).await, Err(AskError::Lost));
        until_incarnation(&tree, "test/a", 5).await;
        let reasons: Vec<_> = tree
            .events(0)
            .into_iter()
            .filter_map(|event| match event.kind {
                EventKind::Exited { reason, .. } => Some(reason),
                _ => None,
            })
            .collect();
        assert_eq!(reasons.len(), 4, "{reasons:?}");
        assert!(reasons[1].contains("boom") && reasons[2].contains("factory boom"), "{reasons:?}");
        assert_eq!(reasons[3], "failed: no room");
        assert_eq!(ping(&mailbox, 1).await, Ok(5));
    });
}

#[test]
fn in_stopped_on_a_graceful_stop() {
    let config = ProbeConfig { on_stop: Some(|| panic!("boom")), ..ProbeConfig::default() };
    let (mailbox, child) = probe("a", &config);
    TestTree::run(tree(child), async |tree| {
        command(&tree, "a", Command::Restart).await;
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().reason, "panicked: boom");
        assert_eq!(ping(&mailbox, 1).await, Ok(2));
    });
}

#[test]
fn in_stopped_after_a_panic_and_in_drop_does_not_end_the_process() {
    let config = ProbeConfig {
        on_stop: Some(|| panic!("stopped boom")),
        on_drop: Some(|| panic!("drop boom")),
        ..ProbeConfig::default()
    };
    let (mailbox, child) = probe("a", &config);
    TestTree::run(tree(child), async |tree| {
        for incarnation in 2..5 {
            assert_eq!(mailbox.ask(boom(), LONG).await, Err(AskError::Lost));
            assert_eq!(ping(&mailbox, 1).await, Ok(incarnation));
            // The first panic is the reason, whatever `stopped` does.
            assert_eq!(tree.node("a").unwrap().last_exit.unwrap().reason, "panicked: boom");
        }
        // A fault stays the reason, whatever `stopped` does.
        mailbox.tell(act(|_, cx| cx.fail(Fault::new("tired")))).unwrap();
        until_incarnation(&tree, "a", 5).await;
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().reason, "failed: tired");
    });
}

#[test]
fn in_drop_of_a_child_and_of_its_future() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("bomb");
        }
    }
    let journal = Journal::default();
    let (mailbox, child) = journaling("a", &journal);
    TestTree::run(tree(child), async |tree| {
        let lay_bomb = || {
            act(|_, cx| {
                let bomb = Bomb;
                let wait = async move {
                    let _bomb = bomb;
                    std::future::pending::<()>().await;
                };
                cx.spawn(wait, |_, (), _| ());
            })
        };
        mailbox.ask(lay_bomb(), LONG).await.unwrap();
        mailbox.tell(act(|_, cx| cx.stop())).unwrap();
        assert_eq!(ping(&mailbox, 1).await, Ok(2));
        assert_eq!(tree.node("a").unwrap().last_exit.unwrap().reason, "panicked: bomb");
        mailbox.ask(lay_bomb(), LONG).await.unwrap();
        command(&tree, "a", Command::Stop).await;
        assert_eq!(journal.count("a dropped"), 2, "the old instance goes although its future's end panicked");
    });
}

/// A task that panics with a name in progress, in its first incarnation.
#[test]
fn in_a_task() {
    let task = Factory::task(|cx: StartCx| async move {
        tokio::task::yield_now().await;
        let _work = cx.vitals.begin_work("batch");
        tokio::task::yield_now().await;
        assert!(cx.incarnation > 1, "boom");
        cx.stop.cancelled().await;
        Ok(())
    });
    TestTree::run(tree(ChildSpec::worker("a", task)), async |tree| {
        until_incarnation(&tree, "a", 2).await;
        let exit = tree.node("a").unwrap().last_exit.unwrap();
        assert_eq!((exit.reason.as_str(), exit.in_progress.as_deref()), ("panicked: boom", Some("batch")));
    });
}

/// A thread that panics at once each time: it was up each time, so the boot succeeds.
#[test]
fn in_a_thread() {
    let runs = Arc::new(AtomicU64::new(0));
    let thread = Factory::thread(move |cx: StartCx| {
        let _work = cx.vitals.begin_work("commit");
        assert!(runs.fetch_add(1, SeqCst) >= 5, "boom");
        orchestrator_supervise::block_on(None, cx.stop.cancelled());
        Ok(())
    });
    TestTree::run(tree(ChildSpec::worker("a", thread)), async |tree| {
        until_incarnation(&tree, "a", 6).await;
        let exit = tree.node("a").unwrap().last_exit.unwrap();
        assert_eq!((exit.reason.as_str(), exit.in_progress.as_deref()), ("panicked: boom", Some("commit")));
    });
}

#[test]
fn stopped_gets_the_exit_of_the_tree() {
    let exits = Journal::default();
    let (mailbox, child) = probe("a", &ProbeConfig { exits: exits.clone(), ..ProbeConfig::default() });
    TestTree::run(tree(child), async |tree| {
        let ends = [boom(), act(|_, cx| cx.fail(Fault::new("tired"))), act(|_, cx| cx.stop())];
        for (count, end) in (2..).zip(ends) {
            mailbox.tell(end).unwrap();
            until_incarnation(&tree, "test/a", count).await;
        }
        command(&tree, "test/a", Command::Restart).await;
        // An injected panic drops the incarnation from outside, as a kill does.
        command(&tree, "test/a", Command::Panic).await;
        until_incarnation(&tree, "test/a", 6).await;
        assert_eq!(exits.lines(), ["panicked: boom", "failed: tired", "normal", "shutdown"]);
    });
    assert_eq!(exits.lines().last().map(String::as_str), Some("shutdown"), "at the end, too");
    assert_eq!(exits.lines().len(), 5);
}
