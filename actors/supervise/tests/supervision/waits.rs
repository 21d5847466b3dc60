//! Waits between children: asks are shown while they last, and cycles of them are found.

use std::{sync::Arc, time::Duration};

use crate::probe::*;
use orchestrator_supervise::{
    AskError, ChildSpec, DEADLOCK_AFTER_MS, Factory, Mailbox, NodeSnapshot, StartCx, Strategy,
    SupervisorSpec, Tree, WaitGraph, inbox,
    testing::{TestTree, eventually},
};
use tokio::sync::Barrier;

/// Time-out of the asks of a deadlock, longer than its detection.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A message whose handler asks `other` once all handlers with this barrier run, and handles nothing
/// meanwhile.
fn asks(other: &Mailbox<Probe>, message: Do, barrier: &Arc<Barrier>) -> Do {
    let (other, barrier) = (other.clone(), barrier.clone());
    Do(Box::new(move |_, cx| {
        let asked = async move {
            barrier.wait().await;
            other.ask(message, TIMEOUT).await
        };
        cx.atomically(asked, |probe, answer, _| {
            probe.note(if answer.is_ok() { "answered" } else { "timed out" });
        })
    }))
}

fn nothing() -> Do {
    act(|_, _| ())
}

fn probes<const N: usize>(ids: [&str; N], journal: &Journal) -> ([Mailbox<Probe>; N], SupervisorSpec) {
    let mut spec = SupervisorSpec::new(Strategy::OneForOne).limits(lenient());
    let mailboxes = ids.map(|id| {
        let (mailbox, child) = journaling(id, journal);
        spec = std::mem::replace(&mut spec, SupervisorSpec::new(Strategy::OneForOne)).child(child);
        mailbox
    });
    (mailboxes, spec)
}

fn waits(tree: &Tree, path: &str) -> Vec<(String, String, usize, bool)> {
    let node = tree.node(path).expect("a known path");
    node.waits.into_iter().map(|wait| (wait.on, wait.kind, wait.count, wait.blocks)).collect()
}

/// Paths of the deadlock through `path`, in order.
fn deadlock(root: &NodeSnapshot, path: &str) -> Option<Vec<String>> {
    let cycle = WaitGraph::new(root).deadlock(path)?;
    assert!(cycle.iter().all(|(_, wait)| wait.for_ms >= DEADLOCK_AFTER_MS), "{cycle:?}");
    Some(cycle.into_iter().map(|(from, _)| from.to_owned()).collect())
}

#[test]
fn two_actors_that_ask_each_other_are_a_deadlock_until_the_time_out() {
    let journal = Journal::default();
    let ([a, b, c], spec) = probes(["a", "b", "c"], &journal);
    TestTree::run(spec, async |tree| {
        // Each asks the other one while it handles a message, so neither handles the other's.
        // The third one waits for the cycle, and is no part of it.
        let barrier = Arc::new(Barrier::new(3));
        a.tell(asks(&b, nothing(), &barrier)).expect("room");
        b.tell(asks(&a, nothing(), &barrier)).expect("room");
        c.tell(asks(&a, nothing(), &barrier)).expect("room");
        let blocking = |on: &str| vec![(on.to_owned(), "answer".to_owned(), 1, true)];
        eventually("the waits are shown", || {
            waits(&tree, "a") == blocking("test/b") && waits(&tree, "b") == blocking("test/a")
        })
        .await;
        eventually("the deadlock is found", || deadlock(&tree.snapshot().root, "test/a").is_some()).await;
        let root = tree.snapshot().root;
        assert_eq!(deadlock(&root, "test/a"), Some(vec!["test/a".to_owned(), "test/b".to_owned()]));
        assert_eq!(deadlock(&root, "test/b"), Some(vec!["test/b".to_owned(), "test/a".to_owned()]));
        assert_eq!(deadlock(&root, "test/c"), None, "waits for a deadlock, and is no part of it");
        let graph = WaitGraph::new(&root);
        let waiting: Vec<_> = graph.waiting_for("test/a").into_iter().map(|(from, _)| from).collect();
        assert_eq!(waiting.len(), 2, "{waiting:?}");
        eventually("the deadlock ends with the time-out", || {
            ["a", "b", "c"].iter().all(|path| waits(&tree, path).is_empty())
        })
        .await;
        assert!(journal.lines().iter().any(|line| line.ends_with("timed out")), "{:?}", journal.lines());
        assert_eq!(deadlock(&tree.snapshot().root, "test/a"), None);
        assert_eq!(ping(&a, 1).await, Ok(1));
    });
}

#[test]
fn a_chain_of_asks_is_no_deadlock() {
    let journal = Journal::default();
    let ([a, b, c], spec) = probes(["a", "b", "c"], &journal);
    TestTree::run(spec, async |tree| {
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let held = Do(Box::new(move |_, cx| {
            cx.atomically(
                async move {
                    let _ = released.await;
                },
                |_, (), _| (),
            )
        }));
        let barrier = Arc::new(Barrier::new(1));
        a.tell(asks(&b, asks(&c, held, &barrier), &barrier)).expect("room");
        let old = |path: &str| {
            let node = tree.node(path).expect("a known path");
            node.waits.first().is_some_and(|wait| wait.for_ms >= DEADLOCK_AFTER_MS)
        };
        eventually("both waits are old", || old("a") && old("b")).await;
        let root = tree.snapshot().root;
        for path in ["test/a", "test/b", "test/c"] {
            assert_eq!(deadlock(&root, path), None, "{path}");
        }
        release.send(()).expect("the last one waits");
        eventually("all are answered", || journal.count("a answered") == 1).await;
        assert_eq!((waits(&tree, "a"), waits(&tree, "b")), (vec![], vec![]));
    });
}

#[test]
fn asks_beside_which_messages_are_handled_are_no_deadlock() {
    let journal = Journal::default();
    let ([a, b], spec) = probes(["a", "b"], &journal);
    TestTree::run(spec, async |tree| {
        let (later, other) = (a.clone(), b.clone());
        // `b` asks `a` atomically. `a` has an ask to `b` that waits in its mailbox, and answers meanwhile.
        let held = Do(Box::new(move |_, cx| {
            cx.atomically(async move { later.ask(Ping(7), LONG).await }, |_, answer, _| {
                assert_eq!(answer, Ok(1));
            })
        }));
        a.tell(act(move |_, cx| cx.spawn(async move { other.ask(held, LONG).await }, |_, _, _| ())))
            .expect("room");
        eventually("both are answered", || journal.count("a 7") == 1).await;
        let other = b.clone();
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        b.tell(Do(Box::new(move |_, cx| cx.atomically(async { drop(released.await) }, |_, (), _| ()))))
            .expect("room");
        a.tell(act(move |_, cx| cx.spawn(async move { other.ask(nothing(), LONG).await }, |_, _, _| ())))
            .expect("room");
        let beside = vec![("test/b".to_owned(), "answer".to_owned(), 1, false)];
        eventually("the wait is shown", || waits(&tree, "a") == beside).await;
        release.send(()).expect("it waits");
        eventually("the wait ends", || waits(&tree, "a").is_empty()).await;
    });
}

#[test]
fn a_full_inbox_shows_the_senders_that_wait_for_room() {
    let (outbox, slot) = inbox::<u32>(1);
    let (task, thread) = (outbox.clone(), outbox.clone());
    let sender = Factory::task(move |cx: StartCx| {
        let outbox = task.clone();
        async move {
            for item in 0..3 {
                let _ = outbox.send(item).await;
            }
            cx.stop.cancelled().await;
            Ok(())
        }
    });
    let blocking = Factory::thread(move |cx: StartCx| {
        for item in 0..3 {
            let _ = thread.send_blocking(item, &cx.stop);
        }
        orchestrator_supervise::block_on(None, cx.stop.cancelled());
        Ok(())
    });
    // The test reads the items; the child only owns the inbox.
    let reader = idle_task().with_inbox("items", &slot);
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .child(ChildSpec::worker("reader", reader))
        .child(ChildSpec::worker("task", sender))
        .child(ChildSpec::worker("thread", blocking));
    TestTree::run(spec, async |tree| {
        let room = vec![("test/reader".to_owned(), "room".to_owned(), 1, true)];
        eventually("both wait", || waits(&tree, "task") == room && waits(&tree, "thread") == room).await;
        let root = tree.snapshot().root;
        assert_eq!(WaitGraph::new(&root).waiting_for("test/reader").len(), 2);
        let mut items = slot.open();
        for _ in 0..6 {
            items.recv().await.expect("an item");
        }
        eventually("none waits", || waits(&tree, "task").is_empty() && waits(&tree, "thread").is_empty())
            .await;
    });
}

#[test]
fn an_ask_through_an_inbox_is_shown_until_its_child_ends() {
    struct Question(orchestrator_supervise::Reply<()>);
    let (outbox, slot) = inbox::<Question>(4);
    let asker = Factory::task(move |_cx: StartCx| {
        let outbox = outbox.clone();
        async move {
            let answer = outbox.ask(Question, LONG).await;
            assert_eq!(answer, Err(AskError::Lost));
            Ok(())
        }
    });
    let reader = idle_task().with_inbox("questions", &slot);
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .limits(lenient())
        .child(ChildSpec::worker("reader", reader))
        .child(ChildSpec::worker("asker", asker).shutdown(deadline(0)));
    TestTree::run(spec, async |tree| {
        let asked = vec![("test/reader".to_owned(), "answer".to_owned(), 1, true)];
        eventually("it waits", || waits(&tree, "asker") == asked).await;
        // A restart drops the ask with its incarnation; the next one asks again.
        command(&tree, "asker", orchestrator_supervise::Command::Restart).await;
        eventually("it waits again", || waits(&tree, "asker") == asked).await;
        let mut questions = slot.open();
        let (first, second) = (questions.recv().await, questions.recv().await);
        assert!(first.expect("the first question").0.is_closed());
        drop(second);
        eventually("the next incarnation asks", || tree.node("asker").expect("it").incarnation >= 3).await;
    });
}
