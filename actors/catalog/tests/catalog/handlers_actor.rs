//! Rows that are handed to an actor of the tree.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use orchestrator_catalog::{
    HandlerConfig,
    edge::handlers::{Actor, AnyHandler, HandleRow},
    handling::{Handler, Row, Task, Verdict},
};
use orchestrator_supervise::{
    Answer, Child, ChildCx, ChildSpec, Factory, Handle, Strategy, SupervisorSpec, mailbox,
    testing::{TestTree, eventually},
};
use serde_json::json;
use tokio::sync::watch;

/// Does what a row asks for.
struct Worker {
    /// How much work was ended because nobody waited for it.
    abandoned: watch::Sender<usize>,
    held: Vec<HandleRow>,
}

impl Child for Worker {}

impl Handle<HandleRow> for Worker {
    fn handle(&mut self, mut order: HandleRow, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        match order.task.row["ask"].as_str().expect("a word") {
            "echo" => {
                let row = order.task.row.clone();
                order.answer(Verdict::Done(row));
            }
            // Answered together, so that each must have been taken while the others waited.
            "hold" => {
                self.held.push(order);
                if self.held.len() == 8 {
                    self.held.drain(..).for_each(|order| order.answer(Verdict::Dead("held".to_owned())));
                }
            }
            "fall" => panic!("a row that its actor does not survive"),
            "drop" => drop(order),
            _ => cx.spawn(async move { order.abandoned().await }, |worker, (), _| {
                worker.abandoned.send_modify(|count| *count += 1);
            }),
        }
        Answer::done()
    }
}

/// Runs `test` with a handler of `capacity` messages, and with how much work was abandoned.
fn with_worker<Fut: Future<Output = ()>>(
    capacity: usize,
    timeout: Duration,
    test: impl FnOnce(Actor, watch::Receiver<usize>) -> Fut,
) {
    let (mailbox, slot) = mailbox::<Worker>(capacity);
    let (abandoned, count) = watch::channel(0);
    let worker = Factory::actor(slot, move |_| Ok(Worker { abandoned: abandoned.clone(), held: Vec::new() }));
    let spec = SupervisorSpec::new(Strategy::OneForOne).child(ChildSpec::worker("worker", worker));
    TestTree::run(spec, |_tree| test(Actor { mailbox: mailbox.recipient(), timeout }, count));
}

fn ask(word: &str) -> Task {
    let row = json!({ "ask": word }).as_object().cloned().expect("an object");
    Task { rule: "measure".to_owned(), row, token: None, attempt: None }
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn an_actor_answers_when_it_is_done() {
    with_worker(16, LONG, async |actor, _| {
        let task = ask("echo");
        assert_eq!(actor.handle(task.clone()).await, Verdict::Done(task.row));
        for verdict in join_all((0..8).map(|_| actor.handle(ask("hold")))).await {
            assert_eq!(verdict, Verdict::Dead("held".to_owned()));
        }
    });
}

#[test]
fn a_row_that_its_actor_does_not_survive_has_failed_and_the_next_one_is_worked_on() {
    with_worker(16, LONG, async |actor, _| {
        for word in ["drop", "fall"] {
            let Verdict::Failed(text) = actor.handle(ask(word)).await else { panic!("{word}") };
            assert_eq!(text, "the actor ended before it answered");
        }
        assert!(matches!(actor.handle(ask("echo")).await, Verdict::Done(_)));
    });
}

#[test]
fn work_ends_when_it_takes_too_long_or_nobody_waits() {
    with_worker(16, Duration::from_millis(50), async |actor, abandoned| {
        let verdict = actor.handle(ask("wait")).await;
        assert_eq!(verdict, Verdict::Failed("the actor did not answer within 50ms".to_owned()));
        eventually("the actor hears of it", || *abandoned.borrow() == 1).await;
        let actor = Actor { timeout: LONG, ..actor };
        let dropped = tokio::time::timeout(Duration::from_millis(50), actor.handle(ask("wait"))).await;
        assert!(dropped.is_err(), "{dropped:?}");
        eventually("the actor hears of that, too", || *abandoned.borrow() == 2).await;
    });
}

#[tokio::test]
async fn a_full_mailbox_is_tried_later() {
    // Nobody empties it.
    let (mailbox, _slot) = mailbox::<Worker>(1);
    let actor = Actor { mailbox: mailbox.recipient(), timeout: Duration::from_millis(50) };
    let (first, second) = tokio::join!(actor.handle(ask("echo")), actor.handle(ask("echo")));
    assert!(matches!(first, Verdict::Failed(_)), "{first:?}");
    let Verdict::Later(text) = second else { panic!("{second:?}") };
    assert!(text.starts_with("the mailbox is full (1 messages)"), "{text}");
}

#[test]
fn the_configuration_names_an_actor_or_nobody() {
    with_worker(16, LONG, async |actor, _| {
        let actors = BTreeMap::from([("worker".to_owned(), actor.mailbox)]);
        let config: HandlerConfig =
            serde_json::from_value(json!({"kind": "actor", "actor": "worker"})).expect("a handler");
        let handler = config.handler(&actors).expect("there is one");
        let task = ask("echo");
        assert_eq!(handler.handle(task.clone()).await, Verdict::Done(task.row));
        assert!(config.handler(&BTreeMap::new()).is_err());
        let nobody = HandlerConfig::default().handler(&actors).expect("nobody is there");
        assert!(matches!(nobody, AnyHandler::Nothing));
        assert_eq!(nobody.handle(ask("echo")).await, Verdict::Done(Row::new()));
    });
}
