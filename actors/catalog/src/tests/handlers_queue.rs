//! Handler whose rows become jobs of the queue.

use std::{sync::Arc, time::Duration};

use orchestrator_exchange::{JobEnd, JobFinished, JobOffered, JobQueue, JobTakenBack, JobWithdrawn};
use orchestrator_supervise::{
    Child, ChildCx, ChildSpec, Factory, Handle, Handled, Reply, StopToken, Strategy, SupervisorSpec, mailbox,
    testing::{TestTree, eventually},
};
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    HandlerConfig,
    edge::handlers::AnyHandler,
    handler::{Failure, Handler, Outcome, Task},
};

/// Offers and withdrawals that the queue got.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) offers: Vec<(JobOffered, Reply<JobEnd>)>,
    pub(super) withdrawn: Vec<JobWithdrawn>,
    /// A worker has each job.
    pub(super) is_handed_out: bool,
}

/// Actor in place of the queue, which leaves the answers to the test.
struct StandIn(Arc<Mutex<Taken>>);

impl Child for StandIn {}

impl Handle<JobOffered> for StandIn {
    fn handle(&mut self, offer: JobOffered, _: &mut ChildCx<'_, Self>) -> Handled<Self, JobEnd> {
        let (reply, answer) = Handled::later();
        self.0.lock().offers.push((offer, reply));
        answer
    }
}

impl Handle<JobWithdrawn> for StandIn {
    fn handle(&mut self, withdrawn: JobWithdrawn, _: &mut ChildCx<'_, Self>) -> Handled<Self, ()> {
        self.0.lock().withdrawn.push(withdrawn);
        Handled::done()
    }
}

impl Handle<JobTakenBack> for StandIn {
    fn handle(&mut self, _: JobTakenBack, _: &mut ChildCx<'_, Self>) -> Handled<Self, bool> {
        Handled::now(!self.0.lock().is_handed_out)
    }
}

/// A child in place of the queue, the queue as others see it, and the jobs that it got.
pub(super) fn queue(capacity: usize) -> (ChildSpec, JobQueue, Arc<Mutex<Taken>>) {
    let (mailbox, slot) = mailbox::<StandIn>(capacity);
    let taken = Arc::<Mutex<Taken>>::default();
    let of_child = taken.clone();
    let child = ChildSpec::worker("queue", Factory::actor(slot, move |_| Ok(StandIn(of_child.clone()))));
    let queue = JobQueue {
        offered: mailbox.recipient(),
        withdrawn: mailbox.recipient(),
        taken_back: mailbox.recipient(),
        waiting: Arc::default(),
    };
    (child, queue, taken)
}

fn handler(queue: &JobQueue) -> AnyHandler {
    let config = json!({
        "kind": "queue", "attr_path": "img/$row.id", "payload": "$row.file", "later_codes": [75], "dead_codes": [64],
    });
    let config: HandlerConfig = serde_json::from_value(config).expect("a handler");
    config.handler("catalog.lab.work".into(), Some(queue)).expect("a handler with a queue")
}

fn task(id: u32) -> Task {
    let row = serde_json::from_value(json!({ "id": id, "file": "a b\n" })).expect("an object");
    Task { rule: "work".to_owned(), row, token: None, former_token: None, attempt: None }
}

/// Runs `test` with a handler and what its queue got.
fn with_queue<Fut: Future<Output = ()>>(test: impl FnOnce(AnyHandler, Arc<Mutex<Taken>>) -> Fut) {
    let (child, queue, taken) = queue(16);
    let spec = SupervisorSpec::new(Strategy::OneForOne).child(child);
    TestTree::run(spec, |_tree| test(handler(&queue), taken));
}

async fn offered(taken: &Mutex<Taken>) -> (JobOffered, Reply<JobEnd>) {
    eventually("an offer", || !taken.lock().offers.is_empty()).await;
    taken.lock().offers.remove(0)
}

#[test]
fn the_workers_report_is_the_outcome() {
    with_queue(async |handler, taken| {
        let result = |exit_code: i64| {
            serde_json::from_value(json!({ "exit_code": exit_code, "duration_secs": 7 })).expect("an object")
        };
        let failure = |exit_code: i64| Failure {
            error: format!("the worker reported exit code {exit_code} after 7 s"),
            result: result(exit_code),
        };
        for (exit_code, outcome) in [
            (0, Outcome::Done(result(0))),
            (1, Outcome::Failed(failure(1))),
            (75, Outcome::Later(failure(75).error)),
            (64, Outcome::Dead(failure(64))),
            (-1, Outcome::Failed(failure(-1))),
            (1 << 40, Outcome::Failed(failure(1 << 40))),
        ] {
            let (got, offer) = tokio::join!(handler.handle(task(3)), async {
                let (offer, reply) = offered(&taken).await;
                let end = JobEnd::Finished(JobFinished { exit_code, seconds: 7 });
                reply.send(end).expect("the handler waits");
                offer
            });
            assert_eq!(got, outcome);
            assert_eq!((offer.job.owner(), offer.job.attr_path()), ("catalog.lab.work", "img/3"));
            assert_eq!(offer.payload, "a b%0A");
            eventually("the job is forgotten", || {
                taken.lock().withdrawn.pop().is_some_and(|it| it.job == offer.job)
            })
            .await;
        }
    });
}

#[test]
fn each_claim_has_a_job_of_its_own() {
    with_queue(async |handler, taken| {
        let mut claims = Vec::new();
        for _ in 0..2 {
            let (_, claim) = tokio::join!(handler.handle(task(3)), async {
                let (offer, reply) = offered(&taken).await;
                reply.send(JobEnd::Taken).expect("the handler waits");
                offer.job.claim().to_owned()
            });
            claims.push(claim);
        }
        assert_ne!(claims[0], claims[1]);
    });
}

#[test]
fn a_claim_that_takes_a_row_over_names_the_former_one() {
    with_queue(async |handler, taken| {
        for former in [None, Some("me/1")] {
            let (token, former_token) = (Some("me/2".to_owned()), former.map(str::to_owned));
            let task = Task { token, former_token, ..task(3) };
            let (_, offer) = tokio::join!(handler.handle(task), async {
                let (offer, reply) = offered(&taken).await;
                reply.send(JobEnd::Taken).expect("the handler waits");
                offer
            });
            assert_eq!((offer.job.claim(), offer.former_claim.as_deref()), ("me/2", former));
        }
    });
}

#[test]
fn a_stop_releases_a_row_whose_job_waits_and_leaves_one_that_a_worker_has() {
    with_queue(async |handler, taken| {
        for is_handed_out in [false, true] {
            taken.lock().is_handed_out = is_handed_out;
            let stop = StopToken::new();
            let (outcome, _offer) = tokio::join!(handler.handle_until(task(3), &stop), async {
                let offer = offered(&taken).await;
                stop.cancel();
                offer
            });
            assert_eq!(outcome == Outcome::Continues, is_handed_out, "{outcome:?}");
            assert_eq!(matches!(outcome, Outcome::Later(_)), !is_handed_out, "{outcome:?}");
        }
        assert!(taken.lock().withdrawn.is_empty(), "the queue has decided already");
    });
}

#[test]
fn a_job_that_the_queue_cannot_have_is_no_endless_loop() {
    with_queue(async |handler, taken| {
        for (end, text) in [
            (JobEnd::Taken, "another row has the job img/3"),
            (JobEnd::Refused("it is long".to_owned()), "the queue refused the job: it is long"),
        ] {
            let (outcome, ()) = tokio::join!(handler.handle(task(3)), async {
                let (_, reply) = offered(&taken).await;
                reply.send(end).expect("the handler waits");
            });
            let (Outcome::Later(error) | Outcome::Failed(Failure { error, .. })) = outcome else {
                panic!("{outcome:?}")
            };
            assert!(error.starts_with(text), "{error}");
        }
    });
}

#[test]
fn an_offer_that_is_lost_is_repeated_as_the_same_job() {
    with_queue(async |handler, taken| {
        let (outcome, ()) = tokio::join!(handler.handle(task(3)), async {
            let (first, reply) = offered(&taken).await;
            drop(reply);
            let (second, reply) = offered(&taken).await;
            assert_eq!(first, second);
            reply
                .send(JobEnd::Finished(JobFinished { exit_code: 0, seconds: 1 }))
                .expect("the handler waits");
        });
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    });
}

#[test]
fn a_row_that_is_lost_withdraws_its_job() {
    with_queue(async |handler, taken| {
        let dropped = tokio::time::timeout(Duration::from_millis(50), handler.handle(task(3))).await;
        assert!(dropped.is_err(), "{dropped:?}");
        eventually("the withdrawal", || taken.lock().withdrawn.len() == 1).await;
        {
            let taken = taken.lock();
            assert_eq!(taken.withdrawn[0].job, taken.offers[0].0.job);
        }
        eventually("the reply is closed", || taken.lock().offers[0].1.is_closed()).await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_is_tried_again() {
    // Nothing empties the mailbox.
    let (_child, queue, _) = queue(1);
    let handler = handler(&queue);
    let both = async { tokio::join!(handler.handle(task(1)), handler.handle(task(2))) };
    assert!(tokio::time::timeout(Duration::from_secs(600), both).await.is_err(), "both wait");
}

#[test]
fn a_rule_without_a_queue_is_refused() {
    let config: HandlerConfig =
        serde_json::from_value(json!({ "kind": "queue", "attr_path": "$row.id" })).expect("a handler");
    assert_eq!(config.check(), Vec::<String>::new());
    let error = config.handler("catalog.lab.work".into(), None).expect_err("no queue");
    assert!(error.starts_with("handler.kind = queue: "), "{error}");
}
