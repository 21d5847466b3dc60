//! Declared messages between children: others are panics in debug builds, and cycles of waits do not start.

use crate::probe::*;
use orchestrator_supervise::{
    ChildRef, ChildSpec, Factory, Root, SpecError, StartCx, Strategy, SupervisorSpec, inbox,
    testing::{TestTree, eventually},
};

/// An actor `a` that sends to an actor `b`, as `declare` says.
#[cfg(debug_assertions)]
fn run_sender(
    declare: impl FnOnce(ChildSpec, &orchestrator_supervise::Mailbox<Probe>) -> ChildSpec,
    waits: bool,
) {
    let journal = Journal::default();
    let ((a, sender), (b, receiver)) = (journaling("a", &journal), journaling("b", &journal));
    let spec =
        SupervisorSpec::new(Strategy::OneForOne).limits(lenient()).child(receiver).child(declare(sender, &b));
    TestTree::run(spec, async |tree| {
        let message = Do(Box::new(move |_, cx| {
            let sent = async move {
                if waits {
                    let _ = b.ask(Ping(1), LONG).await;
                } else {
                    let _ = b.tell(Ping(1));
                }
            };
            cx.atomically(sent, |_, (), _| ())
        }));
        let _ = a.ask(message, LONG).await;
        eventually("it is handled, or the sender is restarted", || {
            journal.count("b 1") == 1 || tree.node("a").is_some_and(|node| node.incarnation > 1)
        })
        .await;
    });
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(
    expected = "test/a sends to test/b, which it does not declare: add ChildSpec::sends_to to its specification"
)]
fn an_undeclared_send_fails_its_test() {
    run_sender(|sender, _| sender, false);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(
    expected = "test/a waits for test/b, which it does not declare: add ChildSpec::waits_for to its specification"
)]
fn an_undeclared_wait_fails_its_test_although_the_send_is_declared() {
    run_sender(|sender, b| sender.sends_to(b), true);
}

#[test]
#[cfg(debug_assertions)]
fn declared_messages_are_sent() {
    run_sender(|sender, b| sender.sends_to(b), false);
    run_sender(|sender, b| sender.waits_for(b), true);
}

#[test]
fn a_declaration_holds_for_a_pool_and_leads_to_a_branch() {
    let journal = Journal::default();
    let (outbox, slot) = inbox::<usize>(16);
    let (results, lines) = (outbox.clone(), slot.clone());
    let worker = move |_| {
        let results = results.clone();
        Factory::task(move |cx: StartCx| {
            let results = results.clone();
            async move {
                let _ = results.send(cx.index).await;
                cx.stop.cancelled().await;
                Ok(())
            }
        })
    };
    let (a, below) = journaling("a", &journal);
    let (branch, target) = (ChildRef::default(), a.clone());
    let reader = Factory::task(move |cx: StartCx| {
        let (mut items, target) = (lines.open(), target.clone());
        async move {
            while let Some(item) = items.next(&cx).await {
                let _ = target.tell(Ping(u32::try_from(item).unwrap_or(0)));
            }
            Ok(())
        }
    });
    let inner = SupervisorSpec::new(Strategy::OneForOne).child(below);
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .child(ChildSpec::supervisor("branch", inner).reference(&branch))
        .child(ChildSpec::worker("reader", reader.with_inbox("results", &slot)).sends_to(&branch))
        .child(ChildSpec::pool("pool", 2, worker).waits_for(&outbox));
    TestTree::run(spec, async |tree| {
        eventually("both numbers have come", || journal.count("a 0") + journal.count("a 1") == 2).await;
        let sends = |path: &str| tree.node(path).expect("a known path").sends_to;
        assert_eq!((sends("pool"), sends("pool/0")), (vec!["test/reader".to_owned()], vec![]));
        assert_eq!((sends("reader"), sends("branch")), (vec!["test/branch".to_owned()], vec![]));
        assert_eq!(ping(&a, 9).await, Ok(1));
    });
}

/// Error of the start of a tree.
fn refusal(children: impl IntoIterator<Item = ChildSpec>) -> Option<SpecError> {
    let spec = children.into_iter().fold(SupervisorSpec::new(Strategy::OneForOne), SupervisorSpec::child);
    actix_rt::System::new().block_on(async { Root::start("test", spec).await.err() })
}

fn cycle(paths: &str) -> Option<SpecError> {
    let text = format!(
        "its waits are a cycle that no child of it could leave: {paths}: send without waiting in one of them"
    );
    let first = paths.split(' ').next().expect("a path");
    Some(SpecError { path: first.to_owned(), text })
}

#[test]
fn a_cycle_of_declared_waits_does_not_start_and_is_named() {
    let journal = Journal::default();
    let probe = |id| journaling(id, &journal);
    let ((a, child_a), (b, child_b), (c, child_c)) = (probe("a"), probe("b"), probe("c"));
    // The first one only leads to the cycle.
    let children = [child_a.waits_for(&b), child_b.waits_for(&c), child_c.sends_to(&a).waits_for(&b)];
    assert_eq!(refusal(children), cycle("test/b -> test/c -> test/b"));

    let (a, child) = probe("a");
    assert_eq!(refusal([child.waits_for(&a)]), cycle("test/a -> test/a"));

    // A branch waits for a pool, and one child of it for the branch.
    let (branch, pool) = (ChildRef::default(), ChildRef::default());
    let inner = SupervisorSpec::new(Strategy::OneForOne).child(probe("a").1.waits_for(&pool));
    let children = [
        ChildSpec::pool("pool", 2, |_| idle_task()).reference(&pool).waits_for(&branch),
        ChildSpec::supervisor("branch", inner).reference(&branch),
    ];
    assert_eq!(refusal(children), cycle("test/branch/a -> test/pool -> test/branch/a"));
}

#[test]
fn waits_without_a_cycle_and_sends_in_a_cycle_start() {
    let journal = Journal::default();
    let probe = |id| journaling(id, &journal);
    let ((a, child_a), (b, child_b), (c, child_c)) = (probe("a"), probe("b"), probe("c"));
    let children = [child_a.waits_for(&b).waits_for(&c), child_b.waits_for(&c), child_c.sends_to(&a)];
    assert_eq!(refusal(children), None);
}
