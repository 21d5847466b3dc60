//! OTP's strategies and restart table.

use crate::probe::*;
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    ChildSpec, Command, Fault, Mailbox, Restart, Strategy, SupervisorSpec, Tree,
    testing::{TestTree, event_after, eventually},
};
use tokio::sync::oneshot;

fn incarnations(tree: &Tree, ids: &str) -> Vec<u64> {
    ids.split_whitespace().map(|id| tree.node(id).unwrap().incarnation).collect()
}

/// Runs `test` on probes a, b, c and d, all permanent unless `alter` says otherwise.
fn four(
    strategy: Strategy,
    alter: impl Fn(ChildSpec) -> ChildSpec,
    test: impl AsyncFnOnce(Tree, Vec<Mailbox<Probe>>, Journal),
) {
    let journal = Journal::default();
    let mut spec = SupervisorSpec::new(strategy).limits(limits(5, std::time::Duration::from_secs(60)));
    let mut mailboxes = Vec::new();
    for id in ["a", "b", "c", "d"] {
        let (mailbox, child) = journaling(id, &journal);
        spec = spec.child(alter(child));
        mailboxes.push(mailbox);
    }
    TestTree::run(spec, async |tree| {
        assert_eq!(journal.lines(), ["a started", "b started", "c started", "d started"], "boot order");
        journal.clear();
        test(tree, mailboxes, journal.clone()).await;
    });
}

#[test]
fn the_restart_table() {
    type Row = (&'static str, fn() -> Do, bool, bool);
    let exits: [Row; 3] = [
        ("normal", || act(|_, cx| cx.stop()), true, false),
        ("failed", || act(|_, cx| cx.fail(Fault::new("tired"))), true, true),
        ("panicked", boom, true, true),
    ];
    for (kind, action, permanent, transient) in exits {
        for (restart, restarted) in [(Restart::Permanent, permanent), (Restart::Transient, transient)] {
            let (mailbox, child) = journaling("a", &Journal::default());
            let spec = SupervisorSpec::new(Strategy::OneForOne).limits(lenient());
            TestTree::run(spec.child(child.restart(restart)), async |tree| {
                mailbox.tell(action()).unwrap();
                if restarted {
                    until_incarnation(&tree, "a", 2).await;
                } else {
                    event_after(&tree, 0, "exit", |e| matches!(e.kind, EventKind::Exited { .. })).await;
                    // The supervisor has seen the exit once it obeys a start.
                    while tree.command("a", Command::Start, &origin()).await.is_err() {}
                    let scheduled = |e: &EventKind| matches!(e, EventKind::RestartScheduled { .. });
                    assert!(!events(&tree, "test/a").iter().any(scheduled), "{kind} {restart:?}");
                }
                assert_eq!(tree.node("a").unwrap().last_exit.unwrap().kind, kind);
                assert_eq!(tree.node("a").unwrap().incarnation, 2, "{kind} {restart:?}");
            });
        }
    }
}

#[test]
fn one_for_one_restarts_only_the_failed_child() {
    four(
        Strategy::OneForOne,
        |child| child,
        async |tree, boxes, journal| {
            boxes[1].tell(boom()).unwrap();
            until_incarnation(&tree, "b", 2).await;
            assert_eq!(incarnations(&tree, "a b c d"), [1, 2, 1, 1]);
            assert_eq!(journal.lines(), ["b stopped", "b dropped", "b started"]);
        },
    );
}

#[test]
fn one_for_all_stops_in_reverse_and_starts_in_order() {
    four(
        Strategy::OneForAll,
        |child| child,
        async |tree, boxes, journal| {
            boxes[1].tell(boom()).unwrap();
            until_incarnation(&tree, "d", 2).await;
            let mut lines = journal.lines();
            lines.retain(|line| !line.ends_with("dropped"));
            let order = "b stopped|d stopped|c stopped|a stopped|a started|b started|c started|d started";
            assert_eq!(lines.join("|"), order);
        },
    );
}

#[test]
fn rest_for_one_restarts_later_children() {
    four(
        Strategy::RestForOne,
        |child| child,
        async |tree, boxes, journal| {
            boxes[1].tell(boom()).unwrap();
            until_incarnation(&tree, "d", 2).await;
            let mut lines = journal.lines();
            lines.retain(|line| !line.ends_with("dropped"));
            assert_eq!(lines.join("|"), "b stopped|d stopped|c stopped|b started|c started|d started");
            assert_eq!(incarnations(&tree, "a b c d"), [1, 2, 2, 2]);
        },
    );
}

#[test]
fn a_round_with_two_failures_counts_once() {
    four(
        Strategy::OneForAll,
        |child| child,
        async |tree, boxes, _| {
            boxes.iter().for_each(|mailbox| mailbox.tell(boom()).unwrap());
            until_incarnation(&tree, "d", 2).await;
            assert_eq!(incarnations(&tree, "a b c d"), [2, 2, 2, 2]);
            eventually("one restart is spent", || tree.node("a").unwrap().budget_left == 4).await;
        },
    );
}

#[test]
fn a_round_does_not_start_a_child_that_has_finished() {
    let transient = |child: ChildSpec| child.restart(Restart::Transient);
    four(Strategy::OneForAll, transient, async |tree, boxes, _| {
        boxes[2].tell(act(|_, cx| cx.stop())).unwrap();
        until_state(&tree, "c", "stopped").await;
        boxes[0].tell(boom()).unwrap();
        until_incarnation(&tree, "d", 2).await;
        assert_eq!(
            (incarnations(&tree, "a b c d"), state(&tree, "c").as_str()),
            (vec![2, 2, 1, 2], "stopped")
        );
    });
}

#[test]
fn a_round_does_not_start_a_stopped_child() {
    four(
        Strategy::OneForAll,
        |child| child,
        async |tree, boxes, _| {
            command(&tree, "b", Command::Stop).await;
            boxes[0].tell(boom()).unwrap();
            until_incarnation(&tree, "d", 2).await;
            assert_eq!(
                (incarnations(&tree, "a b c d"), state(&tree, "b").as_str()),
                (vec![2, 1, 2, 2], "stopped")
            );
        },
    );
}

/// The same while the operator's stop is under way when the sibling fails.
#[test]
fn a_round_does_not_start_a_stopping_child() {
    four(
        Strategy::OneForAll,
        |child| child,
        async |tree, boxes, _| {
            let (open, opened) = oneshot::channel::<()>();
            let gate = Do(Box::new(|_, cx| cx.atomically(opened, |_, _, _| ())));
            boxes[1].tell(gate).unwrap();
            let fail = async {
                until_state(&tree, "b", "stopping").await;
                boxes[0].tell(boom()).unwrap();
                until_state(&tree, "a", "backing_off").await;
                drop(open);
            };
            tokio::join!(command(&tree, "b", Command::Stop), fail);
            until_incarnation(&tree, "d", 2).await;
            assert_eq!(
                (incarnations(&tree, "a b c d"), state(&tree, "b").as_str()),
                (vec![2, 1, 2, 2], "stopped")
            );
        },
    );
}
