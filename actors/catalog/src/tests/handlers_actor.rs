//! Handlers that are actors.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use orchestrator_supervise::{
    Answer, Child, ChildCx, ChildSpec, Factory, Handle, Strategy, SupervisorSpec, mailbox,
    testing::{TestTree, eventually},
};
use serde_json::json;
use tokio::sync::watch;

use crate::{
    HandlerConfig,
    edge::handlers::{Actor, AnyHandler, HandleRow},
    handler::{Handler, Outcome, Row, Task},
};

/// Actor that does what a row asks for.
struct Worker {
    /// Number of rows whose work was cancelled because the rule stopped waiting.
    abandoned: watch::Sender<usize>,
    held: Vec<HandleRow>,
}

impl Child for Worker {}

impl Handle<HandleRow> for Worker {
    fn handle(&mut self, mut order: HandleRow, cx: &mut ChildCx<'_, Self>) -> Answer<Self, ()> {
        match order.task.row["ask"].as_str().expect("a word") {
            "echo" => {
                let row = order.task.row.clone();
                order.answer(Outcome::Done(row));
            }
            // Answered together: each was received while the others waited.
            "hold" => {
                self.held.push(order);
                if self.held.len() == 8 {
                    self.held.drain(..).for_each(|order| order.answer(Outcome::Dead("held".to_owned())));
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

/// Runs `test` with a handler whose mailbox holds `capacity` messages, and with the number of
/// abandoned rows.
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
fn an_actor_answers_later_without_blocking_its_mailbox() {
    with_worker(16, LONG, async |actor, _| {
        let task = ask("echo");
        assert_eq!(actor.handle(task.clone()).await, Outcome::Done(task.row));
        for outcome in join_all((0..8).map(|_| actor.handle(ask("hold")))).await {
            assert_eq!(outcome, Outcome::Dead("held".to_owned()));
        }
    });
}

#[test]
fn a_row_that_crashes_its_actor_has_failed_and_the_next_is_processed() {
    with_worker(16, LONG, async |actor, _| {
        for word in ["drop", "fall"] {
            let Outcome::Failed(text) = actor.handle(ask(word)).await else { panic!("{word}") };
            assert_eq!(text, "the actor ended before it answered");
        }
        assert!(matches!(actor.handle(ask("echo")).await, Outcome::Done(_)));
    });
}

#[test]
fn work_is_cancelled_at_the_time_out_or_when_abandoned() {
    with_worker(16, Duration::from_millis(50), async |actor, abandoned| {
        let outcome = actor.handle(ask("wait")).await;
        assert_eq!(outcome, Outcome::Failed("the actor did not answer within 50ms".to_owned()));
        eventually("the actor hears of it", || *abandoned.borrow() == 1).await;
        let actor = Actor { timeout: LONG, ..actor };
        let dropped = tokio::time::timeout(Duration::from_millis(50), actor.handle(ask("wait"))).await;
        assert!(dropped.is_err(), "{dropped:?}");
        eventually("the actor hears of that, too", || *abandoned.borrow() == 2).await;
    });
}

#[tokio::test]
async fn a_full_mailbox_is_tried_later() {
    // Nothing empties the mailbox.
    let (mailbox, _slot) = mailbox::<Worker>(1);
    let actor = Actor { mailbox: mailbox.recipient(), timeout: Duration::from_millis(50) };
    let (first, second) = tokio::join!(actor.handle(ask("echo")), actor.handle(ask("echo")));
    assert!(matches!(first, Outcome::Failed(_)), "{first:?}");
    let Outcome::Later(text) = second else { panic!("{second:?}") };
    assert!(text.starts_with("the mailbox is full (1 messages)"), "{text}");
}

#[test]
fn the_configured_actor_must_exist() {
    with_worker(16, LONG, async |actor, _| {
        let actors = BTreeMap::from([("worker".to_owned(), actor.mailbox)]);
        let config: HandlerConfig =
            serde_json::from_value(json!({"kind": "actor", "actor": "worker"})).expect("a handler");
        let handler = config.handler(&actors).expect("there is one");
        let task = ask("echo");
        assert_eq!(handler.handle(task.clone()).await, Outcome::Done(task.row));
        assert!(config.handler(&BTreeMap::new()).is_err());
        let nobody = HandlerConfig::default().handler(&actors).expect("nobody is there");
        assert!(matches!(nobody, AnyHandler::Nothing));
        assert_eq!(nobody.handle(ask("echo")).await, Outcome::Done(Row::new()));
    });
}
