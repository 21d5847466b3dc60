//! The rules of the queue's storage, and the trait a backend implements to keep them.
//!
//! Nothing here knows a database: times are arguments, rows are values. [`Storage`] is written so that many requests
//! share one group transaction: `begin`, any number of operations, `commit`, and only then are answers let out.

mod attr;
mod batch;
mod error;
mod inspection;
mod order;

pub use attr::{AttrState, Dispatch, LogRow, Place, Row, Undo, is_expired, is_held};
pub use batch::{Batch, Entry};
pub use error::StorageError;
pub use inspection::{Counts, Peeked, RunCount};
pub use order::GroupKey;

use std::time::{Duration, Instant};

/// One fetcher file: its stem and its number (CONTRACT QF04).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId {
    /// The stem of the file name, any text without `.` and `/`.
    pub fetcher: String,
    /// The number in the file name. Only its order matters; it need not be a time.
    pub started: i64,
}

impl RunId {
    /// The run `started` of `fetcher`.
    #[must_use]
    pub fn new(fetcher: impl Into<String>, started: i64) -> Self {
        Self { fetcher: fetcher.into(), started }
    }
}

/// A run that the storage knows (CONTRACT QF06).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunState {
    /// Which run.
    pub run: RunId,
    /// Whether its file was read to the end under its final name.
    pub complete: bool,
}

/// The name of one hand-out. It is never used twice for one database, so that a late call for a hand-out of an earlier
/// process, or of an earlier incarnation of the store, hits nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandoutId(pub i64);

/// Reply to a worker (CONTRACT QO05).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The attribute path, the first field of the line.
    pub attr_path: String,
    /// The rest of the line.
    pub payload: String,
    /// To be given to [`Storage::delivered`] or [`Storage::undo`].
    pub handout: HandoutId,
}

/// What became of an [`Storage::upsert_run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Upsert {
    /// The run is there.
    Done,
    /// Rows of a deleted run are in the way. Call [`Storage::delete_slice`] (it takes those rows first) until it reports
    /// [`Deletion::Idle`] or [`Deletion::Finished`], then ask again. Nothing was changed.
    Pending,
}

/// What one slice of deleting reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Deletion {
    /// No run is marked as deleted.
    Idle,
    /// Rows are left; call again in a later transaction.
    More,
    /// This run is gone with its last row; others may wait.
    Finished(RunId),
}

/// What a [`Storage::requeue`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requeued {
    /// Rows that can be handed out again, over all fetchers and runs.
    pub rows: usize,
    /// Whether a hold was lifted because the attribute path was in flight.
    pub was_in_flight: bool,
}

/// The queue's storage (CONTRACT QO01 to QO07).
///
/// All operations but [`Storage::begin`] need an open group transaction. After an error other than
/// [`StorageError::UnknownRun`] the transaction must be rolled back, and the operations of its group may be tried again.
/// `now` is wall-clock time in whole seconds, read after the request arrived.
pub trait Storage {
    /// Opens a group transaction and takes note of what others committed since the last one.
    ///
    /// # Errors
    /// [`StorageError::Busy`] if another process is writing: nothing happened, try again within milliseconds.
    fn begin(&mut self) -> Result<(), StorageError>;

    /// Makes the group durable. Only now may its answers leave.
    ///
    /// # Errors
    /// If it fails, nothing of the group happened and the transaction is closed.
    fn commit(&mut self) -> Result<(), StorageError>;

    /// Gives the group up. Does nothing when no transaction is open.
    ///
    /// # Errors
    /// If the backend cannot roll back; open the store anew.
    fn rollback(&mut self) -> Result<(), StorageError>;

    /// The runs known now, without those marked as deleted, in no order (CONTRACT QF06).
    ///
    /// # Errors
    /// Of the backend.
    fn known_runs(&mut self) -> Result<Vec<RunState>, StorageError>;

    /// Adds the fetcher if it is new, and the run, or sets the run's `complete` (CONTRACT QC05, QC08).
    ///
    /// # Errors
    /// Of the backend.
    fn upsert_run(&mut self, run: &RunId, complete: bool) -> Result<Upsert, StorageError>;

    /// Takes over payloads so large that holding them beside the storage's own copies would be too much (CONTRACT QR16).
    /// Called outside of any group; what is staged is valid until the next call that stages something.
    ///
    /// # Errors
    /// Of the backend: the payloads stay where they are, and everything works, with more memory.
    fn stage(&mut self, _batch: &mut Batch) -> Result<(), StorageError> {
        Ok(())
    }

    /// Takes entries of `batch` from position `from` on, until its end or until `deadline`, and returns the position
    /// reached: at least one entry further (CONTRACT QC17, QD14). An unknown fetcher takes everything and keeps nothing.
    ///
    /// # Errors
    /// [`StorageError::UnknownRun`] if the fetcher is known and the run is not; nothing was changed.
    fn enqueue(
        &mut self,
        run: &RunId,
        batch: &Batch,
        from: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, StorageError>;

    /// Marks a run as deleted: from this commit on it is as if it were not there, however many rows it has. The rows
    /// leave by [`Storage::delete_slice`]. Returns false if there is no such run.
    ///
    /// # Errors
    /// Of the backend.
    fn mark_deleted(&mut self, run: &RunId) -> Result<bool, StorageError>;

    /// Removes rows of marked runs for about `budget` at most, brings back older rows that they shadowed, and with the
    /// last row removes the run, and its fetcher if that has no other run.
    ///
    /// # Errors
    /// Of the backend.
    fn delete_slice(&mut self, budget: Duration) -> Result<Deletion, StorageError>;

    /// Hands out the first eligible job, if there is one (CONTRACT QO01 to QO05), and records the hand-out.
    ///
    /// # Errors
    /// Of the backend.
    fn dequeue(&mut self, now: i64) -> Result<Option<Job>, StorageError>;

    /// Notes the end of a job. Returns false for an attribute path never handed out (CONTRACT QO06).
    ///
    /// # Errors
    /// Of the backend.
    fn finish(&mut self, attr_path: &str, exit_code: i64, now: i64) -> Result<bool, StorageError>;

    /// The reply with this hand-out was written. Returns false if the hand-out is not known any more.
    ///
    /// # Errors
    /// Of the backend.
    fn delivered(&mut self, handout: HandoutId) -> Result<bool, StorageError>;

    /// The reply with this hand-out could not be written: everything becomes as before the hand-out, unless the
    /// attribute path was finished or started again meanwhile. Returns whether it was undone.
    ///
    /// # Errors
    /// Of the backend.
    fn undo(&mut self, handout: HandoutId) -> Result<bool, StorageError>;

    /// For the start after a crash: undoes every hand-out whose reply was not noted as written. Returns how many.
    ///
    /// # Errors
    /// Of the backend.
    fn undo_undelivered(&mut self) -> Result<usize, StorageError>;

    /// For operators: makes every row of `attr_path` eligible again. If it is in flight, its log row is finished at
    /// `now` without exit code, which lifts the hold; its worker is not stopped, and its late DONE counts as usual.
    ///
    /// # Errors
    /// Of the backend.
    fn requeue(&mut self, attr_path: &str, now: i64) -> Result<Requeued, StorageError>;
}
