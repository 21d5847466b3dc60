//! Requests of workers, operators and other subsystems as operations on the storage, and their outcomes.

use std::time::Duration;

use super::{Finished, JobFilter, OfferState, OfferedJob, RequeuedSlice};

/// Operation on the storage, one of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Operation<'a> {
    /// Records the end of a job, then hands out the first eligible one (CONTRACT QO01 to QO06).
    Worker {
        /// Attribute path and exit code of the job that ended. A code other than 0 adds it to the failed
        /// jobs (CONTRACT QD17).
        done: Option<(&'a str, i64)>,
        /// Name of the connection that a job is handed out to; None hands none out.
        connection: Option<&'a str>,
    },
    /// Records that the reply with this job was written. No change if that is recorded already or the
    /// hand-out is unknown.
    Delivered(HandoutId),
    /// Undoes a hand-out whose reply was not read, even if its delivery is recorded. No change if the
    /// hand-out is unknown or the attribute path was finished or started again since.
    Undo(HandoutId),
    /// Makes all rows of an attribute path eligible, for operators. If the path is in flight, its log row
    /// is finished without exit code, which ends the hold. A late DONE of the worker still counts.
    Requeue(&'a str),
    /// Requeues the jobs of `filter` for about `budget`: in order of their attribute paths, at or behind
    /// `from`. Jobs that are available already stay as they are.
    RequeueSlice {
        /// Jobs to requeue.
        filter: &'a JobFilter,
        /// First attribute path.
        from: &'a str,
        /// Time for the slice.
        budget: Duration,
    },
    /// Puts an attribute path before all others for its next hand-out, for operators. A held path keeps
    /// its place until its hold ends.
    Bump(&'a str),
    /// Adds a job of another subsystem. A job that is known under the same claim stays as it is. A job under
    /// another claim is replaced: a report on its last hand-out does not end the new one. The new one waits
    /// for that report or for the end of the hold (CONTRACT QO12). But a job under the claim `former` that
    /// was handed out goes on under the new claim, with its end if it has one.
    Offer {
        /// The job under its claim.
        job: &'a OfferedJob,
        /// Claim that this one replaces.
        former: Option<&'a str>,
        /// Text behind the attribute path in the reply to a worker.
        payload: &'a str,
    },
    /// Removes a job of another subsystem. No change if it is not known under its claim.
    Withdraw(&'a OfferedJob),
    /// Removes a job of another subsystem unless a worker has it or has ended it.
    TakeBack(&'a OfferedJob),
}

/// Outcome of an [`Operation`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Of [`Operation::Worker`].
    Worker {
        /// None for an attribute path never handed out (CONTRACT QO06).
        finished: Option<Finished>,
        /// The next job; None if none can be handed out.
        job: Option<Job>,
    },
    /// Of [`Operation::Worker`], if the next job has no room before other payloads are sent.
    NoRoom {
        /// As of [`Self::Worker`].
        finished: Option<Finished>,
    },
    /// Of [`Operation::Delivered`], [`Operation::Undo`] and [`Operation::Withdraw`]: true if something
    /// changed. Of [`Operation::TakeBack`]: true if nobody has the job.
    Changed(bool),
    /// Of [`Operation::Requeue`].
    Requeued(Requeued),
    /// Of [`Operation::RequeueSlice`].
    RequeuedSlice(RequeuedSlice),
    /// Of [`Operation::Bump`].
    Bumped(Bumped),
    /// Of [`Operation::Offer`].
    Offered(OfferState),
}

/// Identifier of a hand-out, unique in its database. A late message about a hand-out of an earlier
/// process or incarnation therefore matches nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandoutId(pub i64);

/// Job in a reply to a worker (CONTRACT QO05).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Attribute path, the first field of the line.
    pub attr_path: String,
    /// Rest of the line.
    pub payload: String,
    /// Argument of the later [`Operation::Delivered`] or [`Operation::Undo`].
    pub handout: HandoutId,
}

/// Outcome of a search for the next job.
#[derive(Debug)]
pub enum HandedOut {
    /// The job.
    Job(Job),
    /// No job can be handed out.
    Nothing,
    /// The next job has no room before other payloads are sent; nothing was changed.
    NoRoom,
}

/// Outcome of [`Operation::Requeue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requeued {
    /// Number of rows made available again, over all fetchers and runs.
    pub rows: usize,
    /// True if the attribute path was in flight, so that its hold was ended.
    pub was_in_flight: bool,
}

/// Outcome of [`Operation::Bump`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bumped {
    /// The path is next in order, behind paths bumped earlier.
    Done,
    /// No group of the path is ready.
    NothingWaits,
    /// Too many paths are bumped already.
    TooMany,
}
