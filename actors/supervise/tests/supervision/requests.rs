//! Restart requests of children, later answers and durable state.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::probe::*;
use orchestrator_observe::EventKind;
use orchestrator_supervise::{
    AskError, ChildSpec, Command, Durable, Factory, Handled, Reply, Strategy, SupervisorSpec, Tree, mailbox,
    testing::{TestTree, eventually},
};

fn spec() -> SupervisorSpec {
    // A restart that cost budget would end the tree.
    SupervisorSpec::new(Strategy::RestForOne).limits(limits(0, Duration::from_secs(60)))
}

/// Message that requests the restart of `path` and journals that the handler continues.
fn asks_for(path: &'static str, tree: &Tree) -> Do {
    let tree = tree.clone();
    Do(Box::new(move |probe, _| {
        tree.request_restart(path, &origin()).unwrap();
        probe.note("goes on");
        Handled::done()
    }))
}

#[test]
fn a_restart_request_returns_at_once_and_costs_no_budget() {
    let journal = Journal::default();
    let (asker, asking) = journaling("asker", &journal);
    let group = SupervisorSpec::new(Strategy::OneForAll)
        .limits(limits(0, Duration::from_secs(60)))
        .child(journaling("work", &journal).1)
        .child(journaling("assign", &journal).1);
    TestTree::run(spec().child(asking).child(ChildSpec::supervisor("group", group)), async |tree| {
        journal.clear();
        asker.ask(asks_for("group", &tree), LONG).await.unwrap();
        until_incarnation(&tree, "group/assign", 2).await;
        let mut lines = journal.lines();
        lines.retain(|line| !line.ends_with("dropped"));
        let expected = ["asker goes on", "assign stopped", "work stopped", "work started", "assign started"];
        assert_eq!(lines, expected);
        assert_eq!(tree.node("asker").unwrap().incarnation, 1);
        let noted = events(&tree, "test/group").into_iter().find_map(|event| match event {
            EventKind::Commanded { verb, outcome, .. } => Some((verb, outcome)),
            _ => None,
        });
        assert_eq!(noted, Some(("restart".to_owned(), "sent".to_owned())));
    });
}

#[test]
fn a_requested_restart_lets_the_handler_end_first() {
    let journal = Journal::default();
    let (asker, asking) = journaling("asker", &journal);
    TestTree::run(spec().child(asking).child(journaling("behind", &journal).1), async |tree| {
        asker.ask(asks_for("asker", &tree), LONG).await.unwrap();
        until_incarnation(&tree, "behind", 2).await;
        assert_eq!(tree.node("asker").unwrap().incarnation, 2);
    });
}

#[test]
fn a_request_about_an_unknown_child_is_refused() {
    let group = SupervisorSpec::new(Strategy::OneForAll).child(journaling("work", &Journal::default()).1);
    TestTree::run(spec().child(ChildSpec::supervisor("group", group)), async |tree| {
        let refusal = |path: &str| tree.request_restart(path, &origin()).unwrap_err().to_string();
        assert!(refusal("nobody").contains("there is no child `nobody`"));
        assert!(refusal("test").contains("the root cannot be commanded"));
        command(&tree, "group", Command::Stop).await;
        assert!(refusal("group/work").contains("start `test/group` first"));
        tree.request_restart("group", &origin()).unwrap();
        until_incarnation(&tree, "group", 2).await;
    });
}

type Kept = Arc<Mutex<Vec<Reply<()>>>>;

/// Message that is answered by the reply in `kept`.
fn answered_later(kept: &Kept) -> Do {
    let kept = kept.clone();
    Do(Box::new(move |_, _| {
        let (reply, answer) = Handled::later();
        kept.lock().unwrap().push(reply);
        answer
    }))
}

#[test]
fn a_later_answer_does_not_block_other_messages() {
    let (mailbox, child) = journaling("a", &Journal::default());
    TestTree::run(SupervisorSpec::new(Strategy::OneForOne).child(child), async |tree| {
        let kept = Kept::default();
        let others = async {
            eventually("the reply is kept", || kept.lock().unwrap().len() == 1).await;
            assert_eq!(ping(&mailbox, 1).await, Ok(1));
            assert!(tree.node("a").unwrap().in_progress.is_none());
            kept.lock().unwrap().remove(0).send(()).unwrap();
        };
        assert_eq!(tokio::join!(mailbox.ask(answered_later(&kept), LONG), others).0, Ok(()));

        let dropped = async {
            eventually("the reply is kept", || kept.lock().unwrap().len() == 1).await;
            kept.lock().unwrap().clear();
        };
        let lost = tokio::join!(mailbox.ask(answered_later(&kept), LONG), dropped).0;
        assert_eq!(lost, Err(AskError::Lost), "the reply was dropped");

        let restarted = async {
            eventually("the reply is kept", || kept.lock().unwrap().len() == 1).await;
            command(&tree, "a", Command::Restart).await;
        };
        let lost = tokio::join!(mailbox.ask(answered_later(&kept), LONG), restarted).0;
        assert_eq!(lost, Err(AskError::Lost), "the incarnation that would answer is gone");
        assert!(kept.lock().unwrap().remove(0).send(()).is_err());

        let timed_out = mailbox.ask(answered_later(&kept), Duration::from_millis(20)).await;
        assert!(matches!(timed_out, Err(AskError::TimedOut(_))), "{timed_out:?}");
        eventually("the reply is closed", || kept.lock().unwrap()[0].is_closed()).await;
    });
}

#[test]
fn durable_state_outlives_restarts_and_is_shown_in_the_tree() {
    let count = Durable::new("count", 0);
    let view = count.view();
    let (mailbox, slot) = mailbox::<Probe>(4);
    let config = ProbeConfig::default();
    let counted = count.clone();
    let make = Factory::actor(slot, move |_| {
        counted.update(|count| *count += 1);
        Ok(Probe { name: "a".to_owned(), config: config.clone() })
    });
    let spec = SupervisorSpec::new(Strategy::OneForOne)
        .limits(lenient())
        .child(ChildSpec::worker("a", make).durable(&count));
    assert!(spec.outline("test").contains("a  actor, permanent, durable: count"));
    TestTree::run(spec, async |tree| {
        assert_eq!(mailbox.ask(boom(), LONG).await, Err(AskError::Lost));
        until_incarnation(&tree, "a", 2).await;
        command(&tree, "a", Command::Restart).await;
        assert_eq!((view.get(), count.get()), (3, 3));
        assert_eq!(tree.node("a").unwrap().durable, ["count"]);
    });
}
