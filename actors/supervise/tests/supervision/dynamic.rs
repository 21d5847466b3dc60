//! Supervisors whose children come and go.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use crate::probe::*;
use futures_util::{
    FutureExt,
    future::{join, join_all},
};
use orchestrator_supervise::{
    Backoff, ChildSpec, Children, ChildrenError, CommandError, EventKind, Exit, Factory, Fault, Limits,
    Mailbox, Placement, Restart, StartCx, Strategy, SupervisorSpec, Tree, Verb, children, mailbox,
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

/// A thread that ends when `end` is set, whatever it is told.
fn deaf(end: &Arc<AtomicBool>) -> Factory {
    let end = end.clone();
    Factory::thread(move |_| {
        while !end.load(SeqCst) {
            std::thread::yield_now();
        }
        Ok(())
    })
}

#[test]
fn children_come_and_go_while_others_run_on() {
    let (children, spec) = tree(lenient());
    let journal = Journal::default();
    TestTree::run(spec, async |tree| {
        let (stays, child) = noting("stays", &journal);
        children.add(child).await.unwrap();
        let (goes, child) = noting("goes", &journal);
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
        let refused = tree.command("test/d/goes", Verb::Restart, &origin()).await;
        assert!(matches!(refused, Err(CommandError::NotFound(_))), "{refused:?}");
        eventually("senders are refused: nobody will ever read it", || goes.tell(Ping(3)).is_err()).await;
        drop(goes);
        eventually("nothing of it is left in memory", || vitals.upgrade().is_none()).await;
        let told: Vec<_> = events(&tree, "test/d/goes");
        assert_eq!(told.first(), Some(&EventKind::Added));
        assert_eq!(told.last(), Some(&EventKind::Removed));
        assert_eq!(ping(&stays, 4).await, Ok(1));
    });
}

#[test]
fn the_first_children_are_those_of_the_specification() {
    let (_children, slot) = children(2);
    let (a, child) = noting("a", &Journal::default());
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
fn an_id_that_was_removed_begins_anew() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        children.add(noting("a", &Journal::default()).1.pausable()).await.unwrap();
        command(&tree, "test/d/a", Verb::Restart).await;
        command(&tree, "test/d/a", Verb::Pause).await;
        children.remove("a").await.unwrap();
        let (a, child) = noting("a", &Journal::default());
        children.add(child.pausable()).await.unwrap();
        let node = tree.node("test/d/a").unwrap();
        assert_eq!((node.incarnation, node.restarts, node.state.as_str()), (1, 0, "running"));
        assert!(node.last_exit.is_none());
        command(&tree, "test/d/a", Verb::Restart).await;
        assert_eq!(ping(&a, 1).await, Ok(2), "commands reach the new one");
    });
}

#[test]
fn a_child_is_replaced_under_its_id_and_keeps_its_pause() {
    let (children, spec) = tree(lenient());
    let journal = Journal::default();
    TestTree::run(spec, async |tree| {
        let (_, child) = noting("a", &journal);
        assert_eq!(children.replace(child).await, Err(ChildrenError::Missing("a".to_owned())));
        children.add(noting("a", &journal).1.pausable()).await.unwrap();
        command(&tree, "test/d/a", Verb::Pause).await;
        let wrong = noting("a", &journal).1.placement(Placement::Dedicated);
        assert!(matches!(children.replace(wrong).await, Err(ChildrenError::Invalid(_))));
        assert_eq!(state(&tree, "test/d/a"), "paused", "it is left alone");
        let (a, child) = noting("a", &journal);
        children.replace(child.pausable()).await.unwrap();
        assert_eq!((names(&tree), state(&tree, "test/d/a")), (vec!["a".to_owned()], "paused".to_owned()));
        assert_eq!(journal.lines(), ["a started", "a stopped", "a dropped", "a started"]);
        command(&tree, "test/d/a", Verb::Resume).await;
        assert_eq!(ping(&a, 1).await, Ok(1));
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
fn a_specification_that_cannot_be_run_is_refused() {
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
fn a_child_that_does_not_start_is_not_declared() {
    let (children, spec) = tree(limits(1, Duration::from_secs(60)));
    TestTree::run(spec, async |tree| {
        for _ in 0..3 {
            let (_, slot) = mailbox::<Probe>(4);
            let fails = Factory::actor(slot, |_| -> Result<Probe, Fault> { Err(Fault::new("no")) });
            let exit = Exit::Failed(Fault::new("no"));
            let refused = children.add(ChildSpec::worker("a", fails)).await;
            assert_eq!(refused, Err(ChildrenError::DidNotStart { id: "a".to_owned(), exit }));
        }
        assert!(names(&tree).is_empty(), "and costs no budget");
        assert_eq!(state(&tree, "test/d"), "running");
    });
}

#[test]
fn a_panic_in_one_child_leaves_the_others_alone() {
    let (children, spec) = tree(lenient());
    let journal = Journal::default();
    TestTree::run(spec, async |tree| {
        let (a, child) = noting("a", &Journal::default());
        children.add(child).await.unwrap();
        let (b, child) = noting("b", &journal);
        children.add(child).await.unwrap();
        for n in 2..5 {
            a.tell(boom()).unwrap();
            assert_eq!(ping(&b, 1).await, Ok(1));
            until_incarnation(&tree, "test/d/a", n).await;
        }
        command(&tree, "test/d/a", Verb::Panic).await;
        until_incarnation(&tree, "test/d/a", 5).await;
        assert_eq!(journal.lines(), ["b started", "b 1", "b 1", "b 1"]);
    });
}

#[test]
fn a_child_that_stops_slowly_holds_nobody_up() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let busy = Arc::new(AtomicBool::new(true));
        let (_slow, child) = probe("slow", &Habits { busy: busy.clone(), ..Habits::default() });
        children.add(child).await.unwrap();
        let (a, child) = noting("a", &Journal::default());
        children.add(child).await.unwrap();
        let removal = children.remove("slow");
        let others = async {
            until_state(&tree, "test/d/slow", "stopping").await;
            a.tell(boom()).unwrap();
            until_incarnation(&tree, "test/d/a", 2).await;
            children.add(noting("b", &Journal::default()).1).await.unwrap();
            let id = "slow".to_owned();
            let again = noting("slow", &Journal::default()).1;
            assert_eq!(children.add(again).await, Err(ChildrenError::Leaving(id.clone())));
            assert_eq!(children.remove("slow").await, Err(ChildrenError::Leaving(id)));
            let refused = tree.command("test/d/slow", Verb::Restart, &origin()).await.unwrap_err();
            assert!(refused.to_string().contains("leaves the tree"), "{refused}");
            assert_eq!(state(&tree, "test/d/slow"), "stopping");
            busy.store(false, SeqCst);
            // An idle actor is asked again when something runs in it.
            _slow.tell(Ping(1)).unwrap();
        };
        let (removed, ()) = join(removal, others).await;
        assert_eq!((removed, names(&tree)), (Ok(()), vec!["a".to_owned(), "b".to_owned()]));
    });
}

#[test]
fn a_child_is_removed_while_it_starts() {
    let (children, slot) = children(4);
    let spec = ChildSpec::dynamic("d", SupervisorSpec::new(ONE), slot).placement(Placement::Dedicated);
    TestTree::run(SupervisorSpec::new(ONE).child(spec), async |tree| {
        let (blocker, child) = noting("blocker", &Journal::default());
        children.add(child).await.unwrap();
        let (go, gone) = mpsc::channel::<()>();
        blocker.tell(act(move |_, _| gone.recv().unwrap())).unwrap();
        let blocked = || tree.node("test/d/blocker").unwrap().in_hand.is_some();
        eventually("the arbiter is blocked", blocked).await;
        let add = async {
            let added = children.add(noting("a", &Journal::default()).1).await;
            assert_eq!(state(&tree, "test/d/a"), "stopped", "its arbiter is blocked");
            go.send(()).unwrap();
            added
        };
        let remove = async {
            eventually("it is in the tree", || names(&tree).len() == 2).await;
            children.remove("a").await
        };
        let (added, removed) = join(add, remove).await;
        assert_eq!((added, removed), (Err(ChildrenError::Removed("a".to_owned())), Ok(())));
        assert_eq!(names(&tree), ["blocker"]);
    });
}

#[test]
fn a_child_is_removed_while_it_backs_off() {
    let backoff = Backoff { first: Duration::from_secs(30), max: Duration::from_secs(30) };
    let (children, spec) = tree(Limits { backoff, ..lenient() });
    TestTree::run(spec, async |tree| {
        let (a, child) = noting("a", &Journal::default());
        children.add(child).await.unwrap();
        a.tell(boom()).unwrap();
        until_state(&tree, "test/d/a", "backing_off").await;
        children.remove("a").await.unwrap();
        assert!(names(&tree).is_empty());
        children.add(noting("a", &Journal::default()).1).await.unwrap();
        assert_eq!(state(&tree, "test/d/a"), "running");
    });
}

#[test]
fn what_ended_for_good_leaves_the_tree_but_what_was_stopped_stays() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let (transient, child) = noting("transient", &Journal::default());
        children.add(child.restart(Restart::Transient)).await.unwrap();
        let (temporary, child) = noting("temporary", &Journal::default());
        children.add(child.restart(Restart::Temporary)).await.unwrap();
        command(&tree, "test/d/transient", Verb::Stop).await;
        assert_eq!(state(&tree, "test/d/transient"), "stopped");
        command(&tree, "test/d/transient", Verb::Start).await;
        transient.tell(boom()).unwrap();
        until_incarnation(&tree, "test/d/transient", 3).await;
        transient.tell(act(|_, cx| cx.stop())).unwrap();
        temporary.tell(boom()).unwrap();
        eventually("both have left", || names(&tree).is_empty()).await;
    });
}

#[test]
fn declared_children_outlive_an_escalation_and_changes_meanwhile_count() {
    let (children, slot) = children(4);
    let tight = limits(1, Duration::from_secs(60));
    let dynamic = ChildSpec::dynamic("d", SupervisorSpec::new(ONE).limits(tight), slot);
    let pause = Duration::from_millis(300);
    let backoff = Backoff { first: pause, max: pause };
    let slow = Limits { backoff, ..limits(5, Duration::from_secs(60)) };
    let journal = Journal::default();
    TestTree::run(SupervisorSpec::new(ONE).limits(slow).child(dynamic), async |tree| {
        let mut mailboxes: Vec<Mailbox<Probe>> = Vec::new();
        for id in ["a", "b", "c"] {
            let (mailbox, child) = noting(id, &journal);
            children.add(child).await.unwrap();
            mailboxes.push(mailbox);
        }
        mailboxes[0].tell(boom()).unwrap();
        until_incarnation(&tree, "test/d/a", 2).await;
        mailboxes[0].tell(boom()).unwrap();
        until_state(&tree, "test/d", "backing_off").await;
        let (d, child) = noting("d", &journal);
        // Nothing runs that a child could be added to: it is declared, or removed, at once.
        children.add(child).await.unwrap();
        assert_eq!(state(&tree, "test/d/d"), "stopped");
        children.remove("c").await.unwrap();
        assert_eq!(names(&tree), ["a", "b", "d"]);
        assert_eq!(state(&tree, "test/d"), "backing_off", "all that happened before it came back");
        until_incarnation(&tree, "test/d", 2).await;
        assert_eq!((ping(&mailboxes[0], 1).await, ping(&mailboxes[1], 1).await), (Ok(3), Ok(2)));
        assert_eq!(ping(&d, 1).await, Ok(1));
        assert_eq!(journal.count("c started"), 1);
    });
}

#[test]
fn a_declared_child_that_does_not_come_back_keeps_nobody_from_it() {
    let (children, spec) = tree(lenient());
    let broken = Arc::new(AtomicBool::new(false));
    TestTree::run(spec, async |tree| {
        let (_mailbox, slot) = mailbox::<Probe>(4);
        let fails = broken.clone();
        let factory = Factory::actor(slot, move |_: &StartCx| match fails.load(SeqCst) {
            true => Err(Fault::new("no")),
            false => Ok(Probe { name: "a".to_owned(), habits: Habits::default() }),
        });
        children.add(ChildSpec::worker("a", factory)).await.unwrap();
        let (b, child) = noting("b", &Journal::default());
        children.add(child).await.unwrap();
        broken.store(true, SeqCst);
        command(&tree, "test/d", Verb::Restart).await;
        assert_eq!(ping(&b, 1).await, Ok(2));
        assert_eq!(state(&tree, "test/d"), "running");
        broken.store(false, SeqCst);
        until_state(&tree, "test/d/a", "running").await;
    });
}

#[test]
fn children_are_steered_by_path() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let (a, child) = noting("a", &Journal::default());
        children.add(child.pausable()).await.unwrap();
        let path = "test/d/a";
        command(&tree, path, Verb::Restart).await;
        assert_eq!(ping(&a, 1).await, Ok(2));
        command(&tree, path, Verb::Stop).await;
        assert_eq!(state(&tree, path), "stopped");
        command(&tree, path, Verb::Start).await;
        command(&tree, path, Verb::Pause).await;
        a.tell(Ping(2)).unwrap();
        assert_eq!((state(&tree, path).as_str(), a.depth()), ("paused", 1));
        command(&tree, path, Verb::Resume).await;
        command(&tree, path, Verb::Panic).await;
        until_incarnation(&tree, path, 4).await;
        assert_eq!(ping(&a, 3).await, Ok(4));
        let verbs: Vec<_> = events(&tree, path)
            .into_iter()
            .filter_map(|kind| if let EventKind::Commanded { verb, .. } = kind { Some(verb) } else { None })
            .collect();
        assert_eq!(verbs, ["restart", "stop", "start", "pause", "resume", "panic"]);
        command(&tree, "test/d", Verb::Stop).await;
        let refused = tree.command(path, Verb::Start, &origin()).await.unwrap_err();
        assert!(refused.to_string().contains("start `test/d` first"), "{refused}");
        command(&tree, "test/d", Verb::Start).await;
        assert_eq!(ping(&a, 4).await, Ok(5));
    });
}

#[test]
fn they_stop_all_at_once_between_their_neighbours() {
    let (children, slot) = children(4);
    let journal = Journal::default();
    let (_, sink) = noting("sink", &journal);
    let (_, source) = noting("source", &journal);
    let spec = SupervisorSpec::new(ONE)
        .child(sink)
        .child(ChildSpec::dynamic("d", SupervisorSpec::new(ONE), slot))
        .child(source);
    TestTree::run(spec, async |tree| {
        let busy = Arc::new(AtomicBool::new(true));
        let habits = Habits { journal: journal.clone(), busy, ..Habits::default() };
        for id in ["a", "b", "c"] {
            children.add(probe(id, &habits).1.shutdown(deadline(200))).await.unwrap();
        }
        journal.clear();
        let begun = std::time::Instant::now();
        command(&tree, "test/d", Verb::Stop).await;
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(200) && took < Duration::from_millis(600), "{took:?}");
        command(&tree, "test/d", Verb::Start).await;
        habits.busy.store(false, SeqCst);
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
fn a_thread_that_hangs_keeps_its_id_until_it_ends() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let end = Arc::new(AtomicBool::new(false));
        children.add(ChildSpec::worker("a", deaf(&end)).shutdown(deadline(10))).await.unwrap();
        assert_eq!(children.remove("a").await, Err(ChildrenError::Stuck("a".to_owned())));
        assert_eq!(state(&tree, "test/d/a"), "stuck");
        let taken = children.add(ChildSpec::worker("a", idle_task())).await;
        assert_eq!(taken, Err(ChildrenError::Leaving("a".to_owned())));
        end.store(true, SeqCst);
        eventually("it has left", || names(&tree).is_empty()).await;
        children.add(ChildSpec::worker("a", idle_task())).await.unwrap();
    });
}

#[test]
fn a_subtree_leaves_as_a_whole() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let inner = SupervisorSpec::new(Strategy::RestForOne)
            .child(noting("x", &Journal::default()).1)
            .child(ChildSpec::pool("pool", 3, |_| idle_task()));
        children.add(ChildSpec::supervisor("a", inner)).await.unwrap();
        children.add(ChildSpec::worker("ab", idle_task())).await.unwrap();
        assert_eq!(state(&tree, "test/d/a/pool/2"), "running");
        command(&tree, "test/d/a/x", Verb::Restart).await;
        children.remove("a").await.unwrap();
        let paths = ["test", "test/d", "test/d/ab"];
        assert_eq!(tree.paths(), paths);
    });
}

#[test]
fn many_changes_at_once_leave_what_was_declared_last() {
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
fn a_change_that_was_given_up_is_not_carried_out() {
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
