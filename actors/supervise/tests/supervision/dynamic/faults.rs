//! Dynamic children that fail or hang.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use super::{ONE, names, tree};
use crate::probe::*;
use futures_util::future::join;
use orchestrator_supervise::{
    Backoff, ChildSpec, ChildrenError, Command, Exit, Factory, Fault, Limits, Mailbox, Placement, StartCx,
    SupervisorSpec, children, mailbox,
    testing::{TestTree, eventually},
};

/// A thread that ends only when `end` is set.
fn unstoppable(end: &Arc<AtomicBool>) -> Factory {
    let end = end.clone();
    Factory::thread(move |_| {
        while !end.load(SeqCst) {
            std::thread::yield_now();
        }
        Ok(())
    })
}

#[test]
fn a_child_that_does_not_start_is_not_added() {
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
        let (a, child) = journaling("a", &Journal::default());
        children.add(child).await.unwrap();
        let (b, child) = journaling("b", &journal);
        children.add(child).await.unwrap();
        for n in 2..5 {
            a.tell(boom()).unwrap();
            assert_eq!(ping(&b, 1).await, Ok(1));
            until_incarnation(&tree, "test/d/a", n).await;
        }
        command(&tree, "test/d/a", Command::Panic).await;
        until_incarnation(&tree, "test/d/a", 5).await;
        assert_eq!(journal.lines(), ["b started", "b 1", "b 1", "b 1"]);
    });
}

#[test]
fn a_slow_stop_does_not_delay_other_children() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let busy = Arc::new(AtomicBool::new(true));
        let (_slow, child) = probe("slow", &ProbeConfig { busy: busy.clone(), ..ProbeConfig::default() });
        children.add(child).await.unwrap();
        let (a, child) = journaling("a", &Journal::default());
        children.add(child).await.unwrap();
        let removal = children.remove("slow");
        let others = async {
            until_state(&tree, "test/d/slow", "stopping").await;
            a.tell(boom()).unwrap();
            until_incarnation(&tree, "test/d/a", 2).await;
            children.add(journaling("b", &Journal::default()).1).await.unwrap();
            let id = "slow".to_owned();
            let again = journaling("slow", &Journal::default()).1;
            assert_eq!(children.add(again).await, Err(ChildrenError::Leaving(id.clone())));
            assert_eq!(children.remove("slow").await, Err(ChildrenError::Leaving(id)));
            let refused = tree.command("test/d/slow", Command::Restart, &origin()).await.unwrap_err();
            assert!(refused.to_string().contains("leaves the tree"), "{refused}");
            assert_eq!(state(&tree, "test/d/slow"), "stopping");
            busy.store(false, SeqCst);
            // An idle actor is asked again after a message.
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
        let (blocker, child) = journaling("blocker", &Journal::default());
        children.add(child).await.unwrap();
        let (go, gone) = mpsc::channel::<()>();
        blocker.tell(act(move |_, _| gone.recv().unwrap())).unwrap();
        let blocked = || tree.node("test/d/blocker").unwrap().in_progress.is_some();
        eventually("the arbiter is blocked", blocked).await;
        let add = async {
            let added = children.add(journaling("a", &Journal::default()).1).await;
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
        let (a, child) = journaling("a", &Journal::default());
        children.add(child).await.unwrap();
        a.tell(boom()).unwrap();
        until_state(&tree, "test/d/a", "backing_off").await;
        children.remove("a").await.unwrap();
        assert!(names(&tree).is_empty());
        children.add(journaling("a", &Journal::default()).1).await.unwrap();
        assert_eq!(state(&tree, "test/d/a"), "running");
    });
}

#[test]
fn added_children_outlive_an_escalation_and_accept_changes_meanwhile() {
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
            let (mailbox, child) = journaling(id, &journal);
            children.add(child).await.unwrap();
            mailboxes.push(mailbox);
        }
        mailboxes[0].tell(boom()).unwrap();
        until_incarnation(&tree, "test/d/a", 2).await;
        mailboxes[0].tell(boom()).unwrap();
        until_state(&tree, "test/d", "backing_off").await;
        let (d, child) = journaling("d", &journal);
        // The supervisor does not run: children are added and removed at once.
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
fn an_added_child_that_fails_to_restart_does_not_stop_the_others() {
    let (children, spec) = tree(lenient());
    let broken = Arc::new(AtomicBool::new(false));
    TestTree::run(spec, async |tree| {
        let (_mailbox, slot) = mailbox::<Probe>(4);
        let fails = broken.clone();
        let factory = Factory::actor(slot, move |_: &StartCx| match fails.load(SeqCst) {
            true => Err(Fault::new("no")),
            false => Ok(Probe { name: "a".to_owned(), config: ProbeConfig::default() }),
        });
        children.add(ChildSpec::worker("a", factory)).await.unwrap();
        let (b, child) = journaling("b", &Journal::default());
        children.add(child).await.unwrap();
        broken.store(true, SeqCst);
        command(&tree, "test/d", Command::Restart).await;
        assert_eq!(ping(&b, 1).await, Ok(2));
        assert_eq!(state(&tree, "test/d"), "running");
        broken.store(false, SeqCst);
        until_state(&tree, "test/d/a", "running").await;
    });
}

#[test]
fn a_hung_thread_keeps_its_id_until_it_ends() {
    let (children, spec) = tree(lenient());
    TestTree::run(spec, async |tree| {
        let end = Arc::new(AtomicBool::new(false));
        children.add(ChildSpec::worker("a", unstoppable(&end)).shutdown(deadline(10))).await.unwrap();
        assert_eq!(children.remove("a").await, Err(ChildrenError::Stuck("a".to_owned())));
        assert_eq!(state(&tree, "test/d/a"), "stuck");
        let taken = children.add(ChildSpec::worker("a", idle_task())).await;
        assert_eq!(taken, Err(ChildrenError::Leaving("a".to_owned())));
        end.store(true, SeqCst);
        eventually("it has left", || names(&tree).is_empty()).await;
        children.add(ChildSpec::worker("a", idle_task())).await.unwrap();
    });
}
