//! Waits between children are shown while they last.

use std::time::Duration;

use crate::probe::*;
use orchestrator_supervise::{
    AskError, ChildSpec, Factory, Mailbox, StartCx, Strategy, SupervisorSpec, Tree, inbox, testing::TestTree,
    testing::eventually,
};

/// Time-out of an ask that nobody answers.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A message whose handler asks `other`, and handles nothing meanwhile.
fn asks(other: &Mailbox<Probe>, message: Do, timeout: Duration) -> Do {
    let other = other.clone();
    Do(Box::new(move |_, cx| {
        cx.atomically(async move { other.ask(message, timeout).await }, |probe, answer, _| {
            probe.note(if answer.is_ok() { "answered" } else { "timed out" });
        })
    }))
}

/// A message whose handler ends once the test lets it, and handles nothing meanwhile.
fn held() -> (tokio::sync::oneshot::Sender<()>, Do) {
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    (release, Do(Box::new(move |_, cx| cx.atomically(async { drop(released.await) }, |_, (), _| ()))))
}

fn waits(tree: &Tree, path: &str) -> Vec<(String, String, usize, bool)> {
    let node = tree.node(path).expect("a known path");
    node.waits.into_iter().map(|wait| (wait.on, wait.kind, wait.count, wait.blocks)).collect()
}

#[test]
fn a_chain_of_asks_is_shown_until_it_is_answered_or_times_out() {
    let journal = Journal::default();
    let ((a, child_a), (b, child_b), (c, child_c)) =
        (journaling("a", &journal), journaling("b", &journal), journaling("c", &journal));
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .child(child_c)
        .child(child_b.waits_for(&c))
        .child(child_a.waits_for(&b));
    TestTree::run(spec, async |tree| {
        let blocking = |on: &str| vec![(on.to_owned(), "answer".to_owned(), 1, true)];
        let (release, message) = held();
        a.tell(asks(&b, asks(&c, message, LONG), LONG)).expect("room");
        eventually("the waits are shown", || {
            waits(&tree, "a") == blocking("test/b") && waits(&tree, "b") == blocking("test/c")
        })
        .await;
        release.send(()).expect("the last one waits");
        eventually("all are answered", || journal.count("a answered") == 1).await;
        assert_eq!((waits(&tree, "a"), waits(&tree, "b")), (vec![], vec![]));

        let (release, message) = held();
        a.tell(asks(&b, message, TIMEOUT)).expect("room");
        eventually("the wait is shown", || waits(&tree, "a") == blocking("test/b")).await;
        eventually("the wait ends with the time-out", || waits(&tree, "a").is_empty()).await;
        eventually("it handles messages again", || journal.count("a timed out") == 1).await;
        release.send(()).expect("it waits");
        assert_eq!(ping(&b, 1).await, Ok(1));
    });
}

#[test]
fn an_ask_beside_which_messages_are_handled_is_shown_so() {
    let journal = Journal::default();
    let ((a, child_a), (b, child_b)) = (journaling("a", &journal), journaling("b", &journal));
    let spec = SupervisorSpec::new(Strategy::OneForOne).child(child_b).child(child_a.sends_to(&b));
    TestTree::run(spec, async |tree| {
        let (release, message) = held();
        a.tell(act(move |_, cx| cx.spawn(async move { b.ask(message, LONG).await }, |_, _, _| ())))
            .expect("room");
        let beside = vec![("test/b".to_owned(), "answer".to_owned(), 1, false)];
        eventually("the wait is shown", || waits(&tree, "a") == beside).await;
        assert_eq!(ping(&a, 7).await, Ok(1));
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
        .child(ChildSpec::worker("task", sender).waits_for(&outbox))
        .child(ChildSpec::worker("thread", blocking).waits_for(&outbox));
    TestTree::run(spec, async |tree| {
        let room = vec![("test/reader".to_owned(), "room".to_owned(), 1, true)];
        eventually("both wait", || waits(&tree, "task") == room && waits(&tree, "thread") == room).await;
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
    let questions = outbox.clone();
    let asker = Factory::task(move |_cx: StartCx| {
        let outbox = questions.clone();
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
        .child(ChildSpec::worker("asker", asker).shutdown(deadline(0)).waits_for(&outbox));
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
