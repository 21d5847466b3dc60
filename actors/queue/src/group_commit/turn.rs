//! Requests as operations, and the results of a turn.

use std::time::{Duration, Instant};

use orchestrator_queue_rules::{
    protocol::Request,
    storage::{Deletion, Finished, OfferEnd, OfferedJob, Operation, Outcome, Storage, StorageError},
};

use super::{ingest::IngestProgress, offers::Offered, slices};
use crate::{messages::StoreRequest, store_metrics::FinishedJob};

/// Duration of a slice of jobs that an operator requeues. Workers that ask meanwhile wait for it.
const REQUEUE_SLICE: Duration = Duration::from_millis(4);

/// Answer to a request, sent after the commit.
pub(super) enum RequestAnswer {
    /// The storage's, or nothing for a worker whose connection has closed.
    Served(Outcome),
    /// To an offer that the storage does not see.
    Offered(Offered),
}

/// Result of a turn, applied after the commit.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) answers: Vec<RequestAnswer>,
    pub(super) ingest: IngestProgress,
    pub(super) deleting: bool,
    /// True if a power failure may undo the turn.
    pub(super) is_unsynced: bool,
    pub(super) finished: Vec<FinishedJob>,
    /// Ends of jobs that other subsystems have offered.
    pub(super) ended: Vec<(OfferedJob, OfferEnd)>,
    pub(super) undone: u64,
    pub(super) rows: u64,
    /// Duration of the transaction with its commit.
    pub(super) took: Duration,
}

pub(super) fn operation(request: &StoreRequest, paused: bool) -> Operation<'_> {
    match request {
        StoreRequest::Worker { request, connection, reply } => Operation::Worker {
            done: match request {
                Request::Done { attr_path, exit_code } => Some((attr_path, *exit_code)),
                Request::Ready => None,
            },
            // A closed connection gets no job, but its DONE counts.
            connection: (!paused && !reply.is_closed()).then_some(&**connection),
        },
        StoreRequest::Delivered(handout) => Operation::Delivered(*handout),
        StoreRequest::Undo(handout) => Operation::Undo(*handout),
        StoreRequest::Requeue { attr_path, .. } => Operation::Requeue(attr_path),
        StoreRequest::RequeueSlice { filter, from, .. } => {
            Operation::RequeueSlice { filter, from, budget: REQUEUE_SLICE }
        }
        StoreRequest::Bump { attr_path, .. } => Operation::Bump(attr_path),
        StoreRequest::Offer { job, former, payload, .. } => {
            Operation::Offer { job, former: former.as_deref(), payload }
        }
        StoreRequest::Withdraw(job) => Operation::Withdraw(job),
        StoreRequest::TakeBack { job, .. } => Operation::TakeBack(job),
    }
}

impl Turn {
    /// Runs one transaction. After an error it is rolled back.
    pub(super) fn attempt(
        store: &mut dyn Storage,
        is_unsynced: bool,
        work: impl FnOnce(&mut dyn Storage, &mut Self) -> Result<(), StorageError>,
    ) -> Result<Self, StorageError> {
        let begun = Instant::now();
        let mut turn = Self { is_unsynced, ..Self::default() };
        let committed = (|| {
            if is_unsynced {
                store.begin_unsynced()?;
            } else {
                store.begin()?;
            }
            work(store, &mut turn)?;
            store.commit()
        })();
        if let Err(error) = committed {
            store.rollback()?;
            return Err(error);
        }
        turn.took = begun.elapsed();
        Ok(turn)
    }

    /// Runs a slice of deletion in this transaction, for `duration` at most.
    pub(super) fn delete(
        &mut self,
        store: &mut dyn Storage,
        duration: Duration,
        has_new_requests: &dyn Fn() -> bool,
    ) -> Result<(), StorageError> {
        let begun = Instant::now();
        let may_continue = || slices::may_continue(begun.elapsed(), duration, has_new_requests());
        self.deleting = store.delete_slice(&may_continue)? != Deletion::Idle;
        Ok(())
    }

    fn record_end(&mut self, request: &Request, finished: Option<Finished>) {
        if let Request::Done { exit_code, .. } = *request
            && let Some(Finished { seconds, offered }) = finished
        {
            self.finished.push(FinishedJob { exit_code, seconds });
            self.ended.extend(offered.map(|job| (job, OfferEnd { exit_code, seconds })));
        }
    }

    /// Records what a request changed and returns its answer.
    pub(super) fn record(&mut self, request: &StoreRequest, outcome: Outcome) -> RequestAnswer {
        match (request, outcome) {
            (StoreRequest::Worker { request, .. }, Outcome::Worker { finished, job }) => {
                self.record_end(request, finished);
                RequestAnswer::Served(Outcome::Worker { finished: None, job })
            }
            (StoreRequest::Worker { request, .. }, Outcome::NoRoom { finished }) => {
                self.record_end(request, finished);
                RequestAnswer::Served(Outcome::NoRoom { finished: None })
            }
            (StoreRequest::Undo(_), Outcome::Changed(undone)) => {
                self.undone += u64::from(undone);
                RequestAnswer::Served(Outcome::Changed(undone))
            }
            (_, Outcome::Offered(state)) => RequestAnswer::Offered(state.into()),
            (_, outcome) => RequestAnswer::Served(outcome),
        }
    }
}
