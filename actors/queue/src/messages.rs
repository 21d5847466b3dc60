//! Messages between the children of the subsystem.
//!
//! The types hold plain values and reply handles, without logic.

use std::{ffi::OsString, sync::Arc};

use orchestrator_exchange::JobEnd;
use orchestrator_observe::GaugeGuard;
use orchestrator_queue_rules::{
    file_name::{FetcherFile, NameError},
    protocol::Request,
    storage::{
        Adopted, Batch, Bumped, HandoutId, Job, JobFilter, OfferedJob, Requeued, RequeuedSlice, RunId,
        RunState, StorageError,
    },
    tracking::Change,
};
use orchestrator_queue_store::{Maintenance, Upkeep};
use orchestrator_supervise::{PauseSpan, Reply};

/// Request of the worker socket or the console to the store. A connection has at most one
/// [`Self::Worker`] in progress.
#[derive(Debug)]
pub(crate) enum StoreRequest {
    /// A worker asks for a job (CONTRACT QO03), and may report the end of another one before (CONTRACT QO06).
    Worker {
        request: Request,
        /// Name of the connection.
        connection: Arc<str>,
        /// Receives the job, or None for `NOJOBS`. Dropped if the store ends; the connection is
        /// then closed without a reply.
        reply: Reply<Option<UnsentJob>>,
    },
    /// The reply with this job was written to the socket completely. Sent before the connection's
    /// next request.
    Delivered(HandoutId),
    /// The reply with this job was not written, or the peer closed without reading it. In the
    /// second case a [`Self::Delivered`] came before, and the hand-out may be final.
    Undo(HandoutId),
    /// An operator makes all rows of an attribute path available again.
    Requeue {
        attr_path: String,
        /// Receives the number of changed rows.
        reply: Reply<Requeued>,
    },
    /// An operator makes some jobs of a filter available again, from an attribute path on.
    RequeueSlice { filter: Arc<JobFilter>, from: String, reply: Reply<RequeuedSlice> },
    /// An operator puts an attribute path before all others, once.
    Bump { attr_path: String, reply: Reply<Bumped> },
    /// Another subsystem offers a job.
    Offer {
        job: OfferedJob,
        /// As of [`Operation::Offer`](orchestrator_queue_rules::storage::Operation::Offer).
        former: Option<Arc<str>>,
        payload: String,
        /// Receives the end of the job. Dropped if the store ends before.
        reply: Reply<JobEnd>,
    },
    /// Another subsystem withdraws a job.
    Withdraw(OfferedJob),
    /// Another subsystem withdraws a job unless a worker has it or has ended it.
    TakeBack {
        job: OfferedJob,
        /// Receives true if nobody has the job.
        reply: Reply<bool>,
    },
}

/// Job of an answer that is not written yet.
#[derive(Debug)]
pub(crate) struct UnsentJob {
    pub(crate) job: Job,
    /// Share of the payload in the store's gauge of unsent bytes.
    pub(crate) _unsent: GaugeGuard,
}

/// Request to the housekeeper: work that must not delay a commit.
pub(crate) enum MaintenanceRequest {
    /// The store asks for upkeep.
    Upkeep(Upkeep),
    /// An operator asks about the queue.
    Question {
        /// True if the answer is a list of jobs, or their number.
        shows_jobs: bool,
        answer: AnswerQuestion,
    },
    /// Records that hand-outs are paused or resumed, for the next start.
    RecordPause(Option<PauseSpan>, Reply<Result<(), StorageError>>),
    /// Moves a fetcher to this instance.
    Adopt(String, Reply<Result<Adopted, StorageError>>),
    /// Asks whether an operator of any instance paused hand-outs.
    SharedPause(Reply<Result<Option<PauseSpan>, StorageError>>),
}

/// Asks the store a question, and sends the answer.
pub(crate) type AnswerQuestion = Box<dyn FnOnce(&mut dyn Maintenance) + Send>;

/// Operation of the file reader on the store. The store applies operations in order.
#[derive(Debug)]
pub(crate) enum IngestOp {
    /// Adds the run, or updates `complete` (CONTRACT QC05, QC08).
    UpsertRun {
        run: RunId,
        /// True if the run's file was read to its end.
        complete: bool,
    },
    /// Lines of the run's file.
    Rows {
        run: RunId,
        /// The rows; empty if only `complete` changes.
        rows: Batch,
        /// True if these are the last rows of a complete file; `complete` is committed together
        /// with them.
        complete: bool,
        /// Share of the rows in the reader's gauge of waiting bytes.
        _held: Option<GaugeGuard>,
    },
    /// Deletes the run and its rows, because its file is gone.
    DeleteRun { run: RunId },
    /// Reports that the first directory listing since the reader's start was processed. The store
    /// answers workers from here on.
    Reconciled,
    /// Asks for the runs after all earlier operations.
    KnownRuns {
        /// Receives all runs of the database.
        reply: Reply<Vec<RunState>>,
    },
}

/// An event of the input directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryEvent {
    /// File name in the directory; any bytes.
    pub(crate) name: OsString,
    pub(crate) change: Change,
}

/// Notice of the inotify edge to the fetcher watcher.
#[derive(Debug)]
pub(crate) enum DirectoryNotice {
    /// Events in the kernel's order.
    Changed(Vec<DirectoryEvent>),
    /// A watch was set or events were lost; the directory must be listed.
    Rescan,
}

/// Command of the fetcher watcher to the file reader. The reader executes commands in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadCommand {
    /// Examines a file after an event.
    Examine { file: FetcherFile, change: Change },
    /// Lists the directory and compares it with the known files.
    Rescan,
    /// The run belongs to another instance (CONTRACT QF09).
    Refused {
        run: RunId,
        /// Names both instances.
        reason: String,
    },
    /// A fetcher was moved to another instance, perhaps from or to this one. As [`Self::Rescan`]; besides,
    /// files of runs that the store does not know are read anew.
    Moved,
    /// A file is ignored because of its name; it may be gone again.
    Ignored {
        /// Name in the directory; any bytes.
        name: OsString,
        error: NameError,
    },
}
