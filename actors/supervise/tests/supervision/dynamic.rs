//! Dynamic supervisors.

mod faults;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::probe::*;
use futures_util::{FutureExt, future::join_all};
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    ChildSpec, Children, ChildrenError, Command, CommandError, Limits, PauseSpan, Placement, Restart,
    Strategy, SupervisorSpec, Tree, children,
    testing::{TestTree, eventually},
};

const ONE: Strategy = Strategy::OneForOne;

/// The tree `test/d` of a dynamic supervisor with `limits` and room for four children.
fn tree(limits: Limits) -> (Children, SupervisorSpec) {
    let (children, slot) = children(4);
    let spec = ChildSpec::dynamic("d", SupervisorSpec::new(ONE).limits(limits), slot);
    (children, SupervisorSpec::new(ONE).limits(lenient()).child(spec))
}

fn names(tree: &Tree) -> Vec<String> {
    tree.node("test/d").unwrap().children.into_iter().map(|child| child.id).collect()
}

#[test]
fn children_are_added_and_removed_while_others_run() {
    let (children, spec) = tree(lenient());
    let journal = Journal::default();
    TestTree::run(spec, async |tree| {
        let (stays, child) = journaling("stays", &journal);
        children.add(child).await.unwrap();
        let (goes, child) = journaling("goes", &journal);
        children.add(child.pausable()).await.unwrap();
        assert_eq!(names(&tree), ["stays", "goes"]);
        assert_eq!((ping(&stays, 1).await, ping(&goes, 1).await), (Ok(1), Ok(1)));
        journal.clear();
        let vitals = Arc::downgrade(&tree.vitals("test/d/goes").unwrap());
        goes.tell(Ping(2)).unwrap();
        children.remove("goes").await.unwrap();
        assert_eq!(journal.lines(), ["goes 2", "goes stopped", "goes dropped"], "it is drained");
        assert_eq!(names(&tree), ["stays"]);
        assert!(tree.node("test/d/goes").is_none() && tree.paths().iter().all(|path| !path.contains("goes")));
        let refused = tree.command("test/d/goes", Command::Restart, &origin()).await;
        assert!(matches!(refused, Err(CommandError::NotFound(_))), "{refused:?}");
        eventually("senders are refused", || goes.tell(Ping(3)).is_err()).await;
        drop(goes);
        eventually("its vitals are freed", || vitals.upgrade().is_none()).await;
        let kinds: Vec<_> = events(&tree, "test/d/goes");
        assert_eq!(kinds.first(), Some(&EventKind::Added));
        assert_eq!(kinds.last(), Some(&EventKind::Removed));
        assert_eq!(ping(&stays, 4).await, Ok(1));
    });
}

#[test]
fn initial_children_come_from_the_specification() {
    let (_children, slot) = children(2);
    let (a, child) = journaling("a", &Journal::default());
    let spec =
        SupervisorSpec::new(ONE).child(ChildSpec::dynamic("d", SupervisorSpec::new(ONE).child(child), slot));
    assert!(spec.outline("test").contains("d  dynamic one_for_one"), "{}", spec.outline("test"));
    TestTree::run(spec, async |tree| {
        assert_eq!(state(&tree, "test/d/a"), "running", "a start waits for them");
        assert_eq!(tree.node("test/d").unwrap().kind, "dynamic");
        assert_eq!(ping(&a, 1).await, Ok(1));
    });
}

#[test]
fn a_removed_id_can_be_used_again() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        children.add(journaling("a", &Journal::default()).1.pausable()).await.unwrap();
        command(&tree, "test/d/a", Command::Restart).await;
        command(&tree, "test/d/a", Command::Pause(PauseSpan::default())).await;
        children.remove("a").await.unwrap();
        let (a, child) = journaling("a", &Journal::default());
        children.add(child.pausable()).await.unwrap();
        let node = tree.node("test/d/a").unwrap();
        assert_eq!((node.incarnation, node.restarts, node.state.name()), (1, 0, "running"));
        assert!(node.last_exit.is_none());
        command(&tree, "test/d/a", Command::Restart).await;
        assert_eq!(ping(&a, 1).await, Ok(2), "the new child answers");
    });
}

#[test]
fn changes_are_refused_with_a_reason() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let task = |id: &str| ChildSpec::worker(id, idle_task());
        children.add(task("a")).await.unwrap();
        assert_eq!(children.add(task("a")).await, Err(ChildrenError::Present("a".to_owned())));
        assert_eq!(children.remove("b").await, Err(ChildrenError::Missing("b".to_owned())));
        for id in ["", "b/c", "b c"] {
            assert!(matches!(children.add(task(id)).await, Err(ChildrenError::Invalid(_))), "{id}");
        }
        let apart = children.add(task("b").placement(Placement::Dedicated)).await;
        assert!(matches!(apart, Err(ChildrenError::Invalid(_))), "{apart:?}");
        for id in ["b", "c", "d"] {
            children.add(task(id)).await.unwrap();
        }
        assert_eq!(children.add(task("e")).await, Err(ChildrenError::Full(4)));
        children.remove("b").await.unwrap();
        children.add(task("e")).await.unwrap();
        assert_eq!(names(&tree), ["a", "c", "d", "e"]);
    });
}

#[test]
fn an_invalid_specification_is_refused() {
    let dynamic = |spec: SupervisorSpec| {
        let (_, slot) = children(1);
        SupervisorSpec::new(ONE).child(ChildSpec::dynamic("d", spec, slot)).validate("test")
    };
    let task = |id: &str| ChildSpec::worker(id, idle_task());
    assert_eq!(dynamic(SupervisorSpec::new(ONE).child(task("a"))), Ok(()));
    let lone = Limits { intensity: 64, ..Limits::LEAF };
    assert_eq!(dynamic(SupervisorSpec::new(ONE).limits(lone)), Ok(()), "a lone child may back off for ever");
    for wrong in [
        SupervisorSpec::new(Strategy::RestForOne),
        SupervisorSpec::new(ONE).child(task("a")).child(task("b")),
        SupervisorSpec::new(ONE).child(task("a").placement(Placement::Dedicated)),
    ] {
        assert!(dynamic(wrong).is_err());
    }
}

#[test]
fn a_finished_child_leaves_the_tree_and_a_stopped_one_stays() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let (transient, child) = journaling("transient", &Journal::default());
        children.add(child.restart(Restart::Transient)).await.unwrap();
        command(&tree, "test/d/transient", Command::Stop).await;
        assert_eq!(state(&tree, "test/d/transient"), "stopped");
        command(&tree, "test/d/transient", Command::Start).await;
        transient.tell(boom()).unwrap();
        until_incarnation(&tree, "test/d/transient", 3).await;
        transient.tell(act(|_, cx| cx.stop())).unwrap();
        eventually("it has left", || names(&tree).is_empty()).await;
    });
}

#[test]
fn children_are_commanded_by_path() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let (a, child) = journaling("a", &Journal::default());
        children.add(child.pausable()).await.unwrap();
        let path = "test/d/a";
        command(&tree, path, Command::Restart).await;
        assert_eq!(ping(&a, 1).await, Ok(2));
        command(&tree, path, Command::Stop).await;
        assert_eq!(state(&tree, path), "stopped");
        command(&tree, path, Command::Start).await;
        command(&tree, path, Command::Pause(PauseSpan::default())).await;
        a.tell(Ping(2)).unwrap();
        assert_eq!((state(&tree, path).as_str(), a.depth()), ("paused", 1));
        command(&tree, path, Command::Resume).await;
        command(&tree, path, Command::Panic).await;
        until_incarnation(&tree, path, 4).await;
        assert_eq!(ping(&a, 3).await, Ok(4));
        let verbs: Vec<_> = events(&tree, path)
            .into_iter()
            .filter_map(|kind| if let EventKind::Commanded { verb, .. } = kind { Some(verb) } else { None })
            .collect();
        assert_eq!(verbs, ["restart", "stop", "start", "pause", "resume", "panic"]);
        command(&tree, "test/d", Command::Stop).await;
        let refused = tree.command(path, Command::Start, &origin()).await.unwrap_err();
        assert!(refused.to_string().contains("start `test/d` first"), "{refused}");
        command(&tree, "test/d", Command::Start).await;
        assert_eq!(ping(&a, 4).await, Ok(5));
    });
}

#[test]
fn dynamic_children_stop_at_the_same_time_between_siblings() {
    let (children, slot) = children(4);
    let journal = Journal::default();
    let (_, sink) = journaling("sink", &journal);
    let (_, source) = journaling("source", &journal);
    let spec = SupervisorSpec::new(ONE)
        .child(sink)
        .child(ChildSpec::dynamic("d", SupervisorSpec::new(ONE), slot))
        .child(source);
    TestTree::run(spec, async |tree| {
        let busy = Arc::new(AtomicBool::new(true));
        let config = ProbeConfig { journal: journal.clone(), busy, ..ProbeConfig::default() };
        for id in ["a", "b", "c"] {
            children.add(probe(id, &config).1.shutdown(deadline(200))).await.unwrap();
        }
        journal.clear();
        let begun = std::time::Instant::now();
        command(&tree, "test/d", Command::Stop).await;
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(200) && took < Duration::from_millis(600), "{took:?}");
        command(&tree, "test/d", Command::Start).await;
        config.busy.store(false, SeqCst);
        journal.clear();
    });
    let lines = journal.lines();
    let at = |line: &str| lines.iter().position(|other| other == line).unwrap();
    for id in ["a", "b", "c"] {
        let stopped = at(&format!("{id} stopped"));
        assert!(at("source stopped") < stopped && stopped < at("sink stopped"), "{lines:?}");
    }
}

#[test]
fn a_subtree_is_removed_as_a_whole() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let inner = SupervisorSpec::new(Strategy::RestForOne)
            .child(journaling("x", &Journal::default()).1)
            .child(ChildSpec::pool("pool", 3, |_| idle_task()));
        children.add(ChildSpec::supervisor("a", inner)).await.unwrap();
        children.add(ChildSpec::worker("ab", idle_task())).await.unwrap();
        assert_eq!(state(&tree, "test/d/a/pool/2"), "running");
        command(&tree, "test/d/a/x", Command::Restart).await;
        children.remove("a").await.unwrap();
        let paths = ["test", "test/d", "test/d/ab"];
        assert_eq!(tree.paths(), paths);
    });
}

#[test]
fn concurrent_changes_leave_the_children_added_last() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        for round in 0..20 {
            let ids = ["a", "b", "c"];
            let adds = ids.map(|id| children.add(ChildSpec::worker(id, idle_task())));
            assert!(join_all(adds).await.iter().all(Result::is_ok), "round {round}");
            let removals = ids.map(|id| children.remove(id));
            assert!(join_all(removals).await.iter().all(Result::is_ok), "round {round}");
        }
        assert!(names(&tree).is_empty());
        assert_eq!(tree.paths().len(), 2);
    });
}

#[test]
fn an_abandoned_change_is_not_carried_out() {
    let (children, slot) = children(4);
    let spec = ChildSpec::dynamic("d", SupervisorSpec::new(ONE), slot);
    assert!(children.add(ChildSpec::worker("late", idle_task())).now_or_never().is_none());
    TestTree::run(SupervisorSpec::new(ONE).child(spec), async |tree| {
        children.add(ChildSpec::worker("a", idle_task())).await.unwrap();
        assert_eq!(names(&tree), ["a"]);
    });
    let ended = children.remove("a").now_or_never();
    assert_eq!(ended, Some(Err(ChildrenError::Ended)));
}
