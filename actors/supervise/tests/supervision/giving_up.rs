//! Children that give up alone: what goes on without them, and when they are tried again.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    time::{Duration, Instant},
};

use crate::probe::*;
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    Backoff, ChildSpec, Command, Exit, Factory, Fault, Limits, Mailbox, Placement, Strategy, SupervisorSpec,
    Tree, children, mailbox,
    testing::{TestTree, event_after, eventually},
};

/// Delays between tries that no test waits for.
const LATER: Backoff = Backoff { first: Duration::from_secs(600), max: Duration::from_secs(600) };

/// A supervisor whose children give up alone at the first failure.
fn alone(retry: Backoff) -> SupervisorSpec {
    SupervisorSpec::new(Strategy::OneForOne).limits(limits(0, Duration::from_secs(60))).give_up_alone(retry)
}

fn child(id: &str) -> (Mailbox<Probe>, ChildSpec) {
    journaling(id, &Journal::default())
}

/// Makes `id` fail, and waits until it is given up; returns the delay until the next try.
async fn give_up(tree: &Tree, id: &str, mailbox: &Mailbox<Probe>) -> u64 {
    let (seq, path) = (tree.event_log().newest(), format!("test/{id}"));
    mailbox.tell(boom()).unwrap();
    let given_up = |event: &orchestrator_observe::Event| {
        event.path == path && matches!(event.kind, EventKind::GivenUp { .. })
    };
    match event_after(tree, seq, "given up", given_up).await.kind {
        EventKind::GivenUp { delay_ms, .. } => delay_ms,
        _ => unreachable!(),
    }
}

#[test]
fn a_branch_is_given_up_with_its_reason_while_another_child_runs() {
    let (a, inside) = child("a");
    let (b, other) = child("b");
    let branch = SupervisorSpec::new(Strategy::OneForOne).limits(limits(1, Duration::from_secs(60)));
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .limits(limits(1, Duration::from_secs(60)))
        .give_up_alone(LATER)
        .child(ChildSpec::supervisor("branch", branch.child(inside)))
        .child(other);
    TestTree::run(spec, async |tree| {
        // Two failures give up the branch, two failures of the branch give it up here.
        for incarnation in [2, 3, 4] {
            a.tell(boom()).unwrap();
            until_incarnation(&tree, "branch/a", incarnation).await;
        }
        a.tell(boom()).unwrap();
        until_state(&tree, "branch", "given_up").await;
        let node = tree.node("branch").unwrap();
        let reason = "failed: more than 1 restarts in 60s, the last for test/branch/a: panicked: boom";
        assert_eq!(node.last_exit.unwrap().reason, reason);
        assert!((1..=600_000).contains(&node.retry_in_ms.unwrap()), "{:?}", node.retry_in_ms);
        assert_eq!(node.children[0].state.name(), "stopped");
        let event = EventKind::GivenUp {
            reason: format!("more than 1 restarts in 60s: {reason}"),
            delay_ms: 600_000,
        };
        assert_eq!(events(&tree, "test/branch").last(), Some(&event));
        let refused = tree.command("branch/a", Command::Restart, &origin()).await.unwrap_err().to_string();
        assert!(refused.contains("start `test/branch` first"), "{refused}");
        // The other child runs on, with a budget of its own.
        assert_eq!(ping(&b, 1).await, Ok(1));
        assert_eq!((tree.node("b").unwrap().budget_left, tree.node("test").unwrap().incarnation), (1, 1));
        // An operator starts it at once, as new; messages that waited are handled.
        a.tell(Ping(2)).unwrap();
        command(&tree, "branch", Command::Start).await;
        assert_eq!((ping(&a, 3).await, a.depth()), (Ok(5), 0));
        let node = tree.node("branch").unwrap();
        assert_eq!((node.state.name(), node.budget_left, node.retry_in_ms), ("running", 1, None));
        assert_eq!(node.children[0].budget_left, 1);
    });
}

#[test]
fn tries_are_further_and_further_apart() {
    let (a, failing) = child("a");
    let retry = Backoff { first: Duration::from_millis(10), max: Duration::from_millis(40) };
    TestTree::run(alone(retry).child(failing).child(child("b").1), async |tree| {
        for (tries, delay_ms) in [10, 20, 40, 40].into_iter().enumerate() {
            assert_eq!(give_up(&tree, "a", &a).await, delay_ms);
            until_incarnation(&tree, "a", tries as u64 + 2).await;
        }
    });
}

#[test]
fn the_delay_resets_after_a_stable_period() {
    let (a, failing) = child("a");
    let retry = Backoff { first: Duration::from_millis(10), max: Duration::from_secs(10) };
    let brief = Limits { period: Duration::from_millis(20), ..limits(0, Duration::ZERO) };
    let spec = SupervisorSpec::new(Strategy::OneForOne).limits(brief).give_up_alone(retry);
    TestTree::run(spec.child(failing).child(child("b").1), async |tree| {
        for incarnation in 2..5 {
            let up = Instant::now();
            eventually("it ran for a stable period", || up.elapsed() > brief.period * 2).await;
            assert_eq!(give_up(&tree, "a", &a).await, 10);
            until_incarnation(&tree, "a", incarnation).await;
        }
    });
}

#[test]
fn a_try_that_does_not_start_is_given_up_again() {
    let starts = Arc::new(AtomicU64::new(0));
    let (a, slot) = mailbox::<Probe>(1);
    let counter = starts.clone();
    let flaky = Factory::actor(slot, move |_| match counter.fetch_add(1, SeqCst) {
        0 => Ok(Probe { name: "a".to_owned(), config: ProbeConfig::default() }),
        _ => Err(Fault::new("still broken")),
    });
    let spec = alone(LATER).child(ChildSpec::worker("a", flaky)).child(child("b").1);
    TestTree::run(spec, async |tree| {
        give_up(&tree, "a", &a).await;
        let failed = tree.command("a", Command::Start, &origin()).await.unwrap_err().to_string();
        assert!(failed.contains("ended before it was up"), "{failed}");
        let node = tree.node("a").unwrap();
        assert_eq!(
            (node.state.name(), node.last_exit.unwrap().reason.as_str()),
            ("given_up", "failed: still broken")
        );
        assert_eq!(starts.load(SeqCst), 2);
    });
}

#[test]
fn the_supervisor_gives_up_with_the_last_significant_child() {
    actix_rt::System::new().block_on(async {
        let journal = Journal::default();
        let (endpoint, aside) = journaling("endpoint", &journal);
        let ((a, first), (b, last)) = (child("a"), child("b"));
        let spec = alone(LATER).child(aside.insignificant()).child(first).child(last);
        let mut tested = TestTree::start(spec).await;
        let tree = tested.root().tree().clone();
        give_up(&tree, "a", &a).await;
        // It is given up like the others, but does not count.
        give_up(&tree, "endpoint", &endpoint).await;
        command(&tree, "endpoint", Command::Start).await;
        assert_eq!(ping(&b, 1).await, Ok(1));
        b.tell(boom()).unwrap();
        let reason = "more than 0 restarts in 60s, the last for test/b: panicked: boom";
        assert_eq!(tested.root().wait().await, Exit::Failed(Fault::new(reason)));
        assert_eq!(journal.count("endpoint stopped"), 2);
        tested.stop().await;
    });
}

#[test]
fn a_child_that_an_operator_stopped_keeps_no_supervisor_running() {
    actix_rt::System::new().block_on(async {
        let (a, first) = child("a");
        let mut tested = TestTree::start(alone(LATER).child(first).child(child("b").1)).await;
        command(tested.root().tree(), "b", Command::Stop).await;
        a.tell(boom()).unwrap();
        assert!(matches!(tested.root().wait().await, Exit::Failed(_)));
        tested.stop().await;
    });
}

#[test]
fn a_stop_while_it_waits_lasts_until_a_start() {
    let (a, failing) = child("a");
    TestTree::run(alone(LATER).child(failing).child(child("b").1), async |tree| {
        give_up(&tree, "a", &a).await;
        command(&tree, "a", Command::Stop).await;
        let node = tree.node("a").unwrap();
        assert_eq!((node.state.name(), node.retry_in_ms), ("stopped", None));
        command(&tree, "a", Command::Start).await;
        assert_eq!(ping(&a, 1).await, Ok(2));
        // The end of the test stops the tree, which does not wait for the next try either.
        give_up(&tree, "a", &a).await;
    });
}

/// The children after it start, and the root is up.
#[test]
fn a_child_that_is_given_up_during_the_boot_holds_nothing_up() {
    actix_rt::System::new().block_on(async {
        let tree: Arc<OnceLock<Tree>> = Arc::default();
        let (a, slot) = mailbox::<Probe>(64);
        let seen = tree.clone();
        let first = Factory::actor(slot, move |cx| {
            let _ = seen.set(cx.tree.clone());
            Ok(Probe { name: "a".to_owned(), config: ProbeConfig::default() })
        });
        let (release, released) = mpsc::channel::<()>();
        let (_slow, slot) = mailbox::<Probe>(1);
        let released = Mutex::new(released);
        let slow = Factory::actor(slot, move |_| {
            let _ = released.lock().unwrap().recv_timeout(LONG);
            Ok(Probe { name: "slow".to_owned(), config: ProbeConfig::default() })
        });
        let spec = alone(LATER)
            .child(ChildSpec::worker("a", first))
            .child(ChildSpec::worker("slow", slow).placement(Placement::Dedicated))
            .child(child("last").1);
        let fail = async {
            eventually("the first child is built", || tree.get().is_some()).await;
            let tree = tree.get().unwrap();
            until_state(tree, "a", "running").await;
            give_up(tree, "a", &a).await;
            release.send(()).unwrap();
        };
        let (mut tested, ()) = tokio::join!(TestTree::start(spec), fail);
        assert_eq!(state(tested.root().tree(), "last"), "running");
        assert_eq!(state(tested.root().tree(), "a"), "given_up");
        tested.stop().await;
    });
}

#[test]
fn only_independent_static_children_give_up_alone() {
    let refusal = |spec: SupervisorSpec| spec.validate("test").unwrap_err().to_string();
    let dependent = SupervisorSpec::new(Strategy::RestForOne).give_up_alone(LATER).child(child("a").1);
    assert!(refusal(dependent).contains("use one_for_one"));
    let (_children, slot) = children(1);
    let dynamic = ChildSpec::dynamic("pool", alone(LATER), slot);
    assert!(
        refusal(SupervisorSpec::new(Strategy::OneForOne).child(dynamic)).contains("cannot give up alone")
    );
}
