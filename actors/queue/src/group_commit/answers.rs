//! Answers of a committed turn.

use orchestrator_queue_rules::{
    protocol::Request,
    storage::{Job, Outcome},
};
use orchestrator_subsystem::DETAIL;

use super::{GroupCommit, turn::RequestAnswer};
use crate::{
    messages::{StoreRequest, UnsentJob},
    store_metrics::StoreMetrics,
};

impl GroupCommit {
    pub(super) fn answer(&mut self, request: StoreRequest, answer: RequestAnswer, metrics: &StoreMetrics) {
        let served = match (request, answer) {
            (StoreRequest::Offer { job, reply, .. }, RequestAnswer::Offered(offered)) => {
                return self.offers.answer(&job, reply, offered);
            }
            (StoreRequest::Withdraw(job), _) => return self.offers.withdrawn(&job),
            (StoreRequest::TakeBack { job, reply }, RequestAnswer::Served(Outcome::Changed(is_free))) => {
                if is_free {
                    self.offers.withdrawn(&job);
                }
                // The sender may have stopped waiting.
                let _ = reply.send(is_free);
                return;
            }
            (_, RequestAnswer::Offered(_)) => return,
            (request, RequestAnswer::Served(outcome)) => (request, outcome),
        };
        match served {
            (StoreRequest::Worker { request, reply, connection }, Outcome::NoRoom { .. }) => {
                log_done(&request);
                let again = StoreRequest::Worker { request: Request::Ready, reply, connection };
                self.without_room.0.push(again);
            }
            (StoreRequest::Worker { request, reply, .. }, Outcome::Worker { job, .. }) => {
                if reply.is_closed() && job.is_none() {
                    return;
                }
                log_done(&request);
                metrics.answered(job.is_some());
                if let Some(Job { attr_path, handout, .. }) = &job {
                    tracing::debug!(target: DETAIL, attr_path, handout = handout.0, "a job is handed out");
                }
                let job = job.map(|job| UnsentJob { _unsent: metrics.hold_unsent(&job), job });
                if let Err(Some(UnsentJob { job, .. })) = reply.send(job) {
                    // The connection closed meanwhile and did not receive the job.
                    self.requests.push(StoreRequest::Undo(job.handout));
                }
            }
            // The operator may have stopped waiting.
            (StoreRequest::Requeue { reply, .. }, Outcome::Requeued(done)) => drop(reply.send(done)),
            (StoreRequest::RequeueSlice { reply, .. }, Outcome::RequeuedSlice(done)) => {
                drop(reply.send(done))
            }
            (StoreRequest::Bump { reply, .. }, Outcome::Bumped(done)) => drop(reply.send(done)),
            _ => {}
        }
    }
}

fn log_done(request: &Request) {
    if let Request::Done { attr_path, exit_code } = request {
        tracing::debug!(target: DETAIL, attr_path, exit_code, "a job is reported as done");
    }
}
