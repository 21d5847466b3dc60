//! Restart intensity, escalation and backoff.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use crate::probe::*;
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    Backoff, ChildSpec, Command, Exit, Factory, Fault, Limits, Strategy, SupervisorSpec, Tree, mailbox,
    testing::{TestTree, event_after, eventually},
};

fn inner(limits: Limits, child: ChildSpec) -> SupervisorSpec {
    let inner = SupervisorSpec::new(Strategy::OneForOne).limits(limits).child(child);
    SupervisorSpec::new(Strategy::OneForOne).limits(lenient()).child(ChildSpec::supervisor("inner", inner))
}

fn escalations(tree: &Tree, path: &str) -> Vec<String> {
    let reason = |event| if let EventKind::Escalated { reason } = event { Some(reason) } else { None };
    events(tree, path).into_iter().filter_map(reason).collect()
}

#[test]
fn more_than_intensity_restarts_escalate_to_the_parent() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(inner(limits(2, Duration::from_secs(60)), child), async |tree| {
        for incarnation in 2..=3 {
            mailbox.tell(boom()).unwrap();
            until_incarnation(&tree, "inner/a", incarnation).await;
        }
        eventually("the budget is spent", || tree.node("inner/a").unwrap().budget_left == 0).await;
        assert_eq!(escalations(&tree, "test/inner"), Vec::<String>::new());
        mailbox.tell(boom()).unwrap();
        until_incarnation(&tree, "inner", 2).await;
        let reasons = escalations(&tree, "test/inner");
        assert_eq!(reasons, ["more than 2 restarts in 60s, the last for test/inner/a: panicked: boom"]);
        // The restarted supervisor has a full budget, and its children have the same mailboxes.
        assert_eq!(ping(&mailbox, 1).await, Ok(4));
        assert_eq!(tree.node("inner/a").unwrap().budget_left, 2);
    });
}

#[test]
fn restarts_leave_the_window_after_the_period() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(inner(limits(1, Duration::from_millis(30)), child), async |tree| {
        for incarnation in 2..6 {
            mailbox.tell(boom()).unwrap();
            until_incarnation(&tree, "inner/a", incarnation).await;
            eventually("the budget grows again", || tree.node("inner/a").unwrap().budget_left == 1).await;
        }
        assert_eq!(escalations(&tree, "test/inner"), Vec::<String>::new());
    });
}

#[test]
fn the_root_exits_with_the_reason_and_stops_the_rest() {
    actix_rt::System::new().block_on(async {
        let journal = Journal::default();
        let (_other, sink) = journaling("sink", &journal);
        let (mailbox, child) = journaling("a", &journal);
        let spec = SupervisorSpec::new(Strategy::OneForOne).limits(limits(0, Duration::from_secs(1)));
        let mut tested = TestTree::start(spec.child(sink).child(child)).await;
        mailbox.tell(boom()).unwrap();
        let reason = "more than 0 restarts in 1s, the last for test/a: panicked: boom";
        assert_eq!(tested.root().wait().await, Exit::Failed(Fault::new(reason)));
        assert_eq!(tested.root().wait().await, Exit::Failed(Fault::new(reason)), "as often as it is asked");
        assert_eq!(journal.count("sink stopped"), 1);
        tested.stop().await;
    });
}

#[test]
fn a_failed_start_at_boot_stops_the_started_ones_in_reverse_and_fails() {
    actix_rt::System::new().block_on(async {
        let journal = Journal::default();
        let mut spec = SupervisorSpec::new(Strategy::OneForOne).limits(lenient());
        for id in ["a", "b"] {
            spec = spec.child(journaling(id, &journal).1);
        }
        let (_mailbox, slot) = mailbox::<Probe>(1);
        let broken = Factory::actor(slot, |_| Err(Fault::new("no such directory")));
        spec = spec.child(ChildSpec::worker("c", broken)).child(journaling("d", &journal).1);
        let mut tested = TestTree::start(spec).await;
        let reason = "test/c did not start: failed: no such directory";
        assert_eq!(tested.root().wait().await, Exit::Failed(Fault::new(reason)));
        let mut lines = journal.lines();
        lines.retain(|line| !line.ends_with("dropped"));
        assert_eq!(lines, ["a started", "b started", "b stopped", "a stopped"]);
        tested.stop().await;
    });
}

/// A task that fails before its first wait did not start; one that ends normally there did.
#[test]
fn a_task_without_a_wait_starts_if_it_ends_normally() {
    for well in [true, false] {
        actix_rt::System::new().block_on(async {
            let task = Factory::task(move |_| async move {
                if well { Ok(()) } else { Err(Fault::new("nothing to do")) }
            });
            let child = ChildSpec::worker("a", task).restart(orchestrator_supervise::Restart::Transient);
            let mut tested = TestTree::start(SupervisorSpec::new(Strategy::OneForOne).child(child)).await;
            let wanted = if well {
                let mut exit = || tested.root().tree().node("a").unwrap().last_exit;
                eventually("it has ended well", || exit().is_some_and(|exit| exit.kind == "normal")).await;
                Exit::Shutdown
            } else {
                Exit::Failed(Fault::new("test/a did not start: failed: nothing to do"))
            };
            assert_eq!(tested.root().stop().await, wanted);
            tested.stop().await;
        });
    }
}

#[test]
fn a_restart_that_fails_counts_again() {
    let starts = Arc::new(AtomicU64::new(0));
    let (mailbox, slot) = mailbox::<Probe>(1);
    let counter = starts.clone();
    let flaky = Factory::actor(slot, move |_| match counter.fetch_add(1, SeqCst) {
        // The first start, and the one after the escalation.
        0 | 3 => Ok(Probe { name: "a".to_owned(), config: ProbeConfig::default() }),
        _ => Err(Fault::new("still broken")),
    });
    let child = ChildSpec::worker("a", flaky);
    TestTree::run(inner(limits(2, Duration::from_secs(60)), child), async |tree| {
        mailbox.tell(boom()).unwrap();
        until_incarnation(&tree, "inner", 2).await;
        assert_eq!(starts.load(SeqCst), 4, "one boot, two tries, one boot after the escalation");
    });
}

#[test]
fn backoff_doubles_and_resets_after_a_stable_period() {
    let backoff = Backoff { first: Duration::from_millis(10), max: Duration::from_millis(40) };
    let limits = Limits { intensity: 3, period: Duration::from_millis(100), backoff };
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(inner(limits, child), async |tree| {
        let delay = async |seq| {
            let scheduled = |e: &orchestrator_observe::Event| {
                e.path == "test/inner/a" && matches!(e.kind, EventKind::RestartScheduled { .. })
            };
            match event_after(&tree, seq, "restart scheduled", scheduled).await.kind {
                EventKind::RestartScheduled { delay_ms } => delay_ms,
                _ => unreachable!(),
            }
        };
        for (attempt, range) in [8..=12, 16..=24].into_iter().enumerate() {
            let seq = tree.event_log().newest();
            mailbox.tell(boom()).unwrap();
            let delay_ms = delay(seq).await;
            assert!(range.contains(&delay_ms), "try {attempt} after {delay_ms} ms");
            until_incarnation(&tree, "inner/a", attempt as u64 + 2).await;
        }
        let up = Instant::now();
        eventually("it ran for a stable period", || up.elapsed() > limits.period * 2).await;
        let seq = tree.event_log().newest();
        mailbox.tell(boom()).unwrap();
        assert!(delay(seq).await <= 12);
        until_incarnation(&tree, "inner/a", 4).await;
    });
}

#[test]
fn a_restart_command_costs_no_budget() {
    let (_mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(inner(limits(1, Duration::from_secs(60)), child), async |tree| {
        for path in ["inner/a", "inner"] {
            for _ in 0..10 {
                command(&tree, path, Command::Restart).await;
            }
            let (node, inner) = (tree.node("inner/a").unwrap(), tree.node("inner").unwrap());
            assert_eq!((node.budget_left, inner.budget_left), (1, 1000));
        }
        assert_eq!(tree.node("inner/a").unwrap().planned_restarts, 20);
    });
}

/// A child that backs off is shown as stopped after a stop of the tree.
#[test]
fn a_stop_while_backing_off_ends_stopped() {
    let backoff = Backoff { first: Duration::from_secs(10), max: Duration::from_secs(10) };
    let slow = Limits { intensity: 1, period: Duration::from_secs(60), backoff };
    let (mailbox, child) = journaling("a", &Journal::default());
    let other = ChildSpec::worker("b", idle_task());
    let spec = SupervisorSpec::new(Strategy::OneForAll).limits(slow).child(child).child(other);
    TestTree::run(spec, async |tree| {
        mailbox.tell(boom()).unwrap();
        until_state(&tree, "a", "backing_off").await;
        until_state(&tree, "b", "backing_off").await;
    });
}

/// The same if the supervisor is killed meanwhile and backs off itself.
#[test]
fn a_killed_supervisor_leaves_no_child_backing_off() {
    let backoff = Backoff { first: Duration::from_secs(10), max: Duration::from_secs(10) };
    let slow = Limits { intensity: 1, period: Duration::from_secs(60), backoff };
    let (mailbox, child) = journaling("a", &Journal::default());
    let inner = SupervisorSpec::new(Strategy::OneForOne).limits(slow).child(child);
    let group = ChildSpec::supervisor("inner", inner);
    TestTree::run(SupervisorSpec::new(Strategy::OneForOne).limits(slow).child(group), async |tree| {
        mailbox.tell(boom()).unwrap();
        until_state(&tree, "inner/a", "backing_off").await;
        command(&tree, "inner", Command::Panic).await;
        until_state(&tree, "inner/a", "stopped").await;
    });
}
