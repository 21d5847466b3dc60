//! What the parts of the subsystem tell each other over their inboxes.
//!
//! Only plain values and reply channels; no part's rules live here.

use std::ffi::OsString;

use orchestrator_supervise::Reply;

use crate::{
    file_name::FetcherFile,
    storage::{Batch, Counts, HandoutId, Job, Peeked, Requeued, RunCount, RunId, RunState, StorageError},
};

/// From the worker socket to the store. One connection has at most one [`Self::Ready`] or [`Self::Done`] in work.
#[derive(Debug)]
pub enum StoreRequest {
    /// A worker asks for a job (CONTRACT QO03).
    Ready {
        /// The job, or None for `NOJOBS`. Dropped = the store gave up: the connection is closed without a reply.
        reply: Reply<Option<Job>>,
    },
    /// A worker ended a job and asks for the next (CONTRACT QO06).
    Done {
        /// What was worked on.
        attr_path: String,
        /// How it ended.
        exit_code: i64,
        /// As in [`Self::Ready`].
        reply: Reply<Option<Job>>,
    },
    /// The reply with this hand-out was written to the socket as a whole. Sent before the connection's next request.
    Delivered(HandoutId),
    /// The reply with this hand-out was not written, or the peer closed without reading it. In the second case a
    /// [`Self::Delivered`] came before, and the store may have no way back any more.
    Undo(HandoutId),
    /// An operator wants every row of an attribute path to be handed out again.
    Requeue {
        /// Which.
        attr_path: String,
        /// What was done.
        reply: Reply<Requeued>,
    },
}

/// To the housekeeper: what must not delay a commit.
#[derive(Debug)]
pub enum Chore {
    /// The write-ahead log has grown: move it into the database while the store goes on.
    Checkpoint,
    /// Nothing happened for a while: leave a file that a plain copy finds whole.
    Idle,
    /// An operator's question about the runs.
    Runs(Reply<Answer<Vec<RunCount>>>),
    /// An operator's question about the next jobs, at most so many.
    Peek(usize, Reply<Answer<Vec<Peeked>>>),
    /// An operator's question about everything.
    Counts(Reply<Answer<Counts>>),
}

/// An answer to an operator, or why there is none.
pub type Answer<T> = Result<T, StorageError>;

/// From the file reader to the store, to be applied in order.
#[derive(Debug)]
pub enum IngestOp {
    /// Adds the run, or sets its `complete` (CONTRACT QC05, QC08).
    UpsertRun {
        /// Which run.
        run: RunId,
        /// Its new state.
        complete: bool,
    },
    /// Lines of the run's file.
    Rows {
        /// Which run.
        run: RunId,
        /// Possibly empty, when only `complete` is news.
        rows: Batch,
        /// These are the last rows of a complete file: `complete` is to be committed with them, never before.
        complete: bool,
    },
    /// The file is gone: so are the run and its rows.
    DeleteRun {
        /// Which run.
        run: RunId,
    },
    /// The first listing since the reader started has been worked in: workers may be answered from here on.
    Reconciled,
    /// Asks for the runs as they are after all operations sent before.
    KnownRuns {
        /// All runs of the database.
        reply: Reply<Vec<RunState>>,
    },
}

/// What a directory event says about one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// The name is new (also by link(2)).
    Created,
    /// What it names was written or truncated.
    Modified,
    /// A writer closed it.
    Closed,
    /// It came by rename.
    MovedTo,
    /// It left by rename.
    MovedFrom,
    /// It was removed.
    Deleted,
}

/// One event of the input directory, in the order of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEvent {
    /// The name inside the directory, any bytes.
    pub name: OsString,
    /// What happened to it.
    pub change: Change,
}

/// From the inotify edge to the fetcher watcher.
#[derive(Debug)]
pub enum DirectoryNotice {
    /// Events in order.
    Changed(Vec<DirectoryEvent>),
    /// A watch was set, or events were lost: look at everything.
    Rescan,
}

/// From the fetcher watcher to the file reader, to be obeyed in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadCommand {
    /// Something happened to this file: look at it.
    Look {
        /// Which file.
        file: FetcherFile,
        /// What happened.
        change: Change,
    },
    /// List the directory and compare it with what is known.
    Rescan,
}
