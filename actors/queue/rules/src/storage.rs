//! Rules of the queue's storage, and the trait of storage backends.
//!
//! No database is used here: times are arguments, rows are values. With [`Storage`], many requests
//! share one transaction: `begin`, any number of operations, `commit`. Answers are sent after the
//! commit.

mod attr;
mod batch;
mod delivery;
mod error;
pub mod glob;
mod inspection;
mod limits;
mod offers;
mod operation;
mod order;
mod questions;
mod selection;
mod settings;

pub use attr::{AttrState, Class, Dispatch, GroupPosition, LogRow, Row, Section, is_expired, is_held};
pub use batch::{Batch, Entry};
pub use delivery::Delivery;
pub use error::{StorageError, StorageErrorKind};
pub use inspection::{
    ANSWER_BYTES_MAX, Adopted, Attempt, AttrReport, Counts, Ends, FAILURES_KEPT, FailedAttempts, FailedJob,
    HeldJobs, InstanceRow, LISTED_MAX, ListedRow, NextJobs, PAYLOAD_CHARS_MAX, POSITION_MAX, Peeked,
    RunCount, Sample, StaleGroup, Waiting, WaitingGroup, time_to_empty,
};
pub use limits::{LIMITS_MAX, Limit, LimitedJobs, Limits};
pub use offers::{Finished, OWNER_RUN, OfferEnd, OfferState, OfferedJob, is_owner};
pub use operation::{Bumped, HandedOut, HandoutId, Job, Operation, Outcome, Requeued};
pub use order::GroupKey;
pub use questions::Questions;
pub use selection::{JobFilter, JobState, Pattern, RequeuedSlice};
pub use settings::HandoutSettings;

use std::{sync::Arc, time::Instant};

use orchestrator_text::NUMBER_OR_TIME;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lines::LINE_BYTES_MAX;

/// Identity of a run, the lines of one fetcher file: stem and number of its name (CONTRACT QF04).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct RunId {
    /// Stem of the file name; any text without `.` and `/`.
    pub fetcher: String,
    /// Number in the file name. Only its order matters; it need not be a time.
    #[serde(rename = "run_started")]
    #[schemars(extend("format" = NUMBER_OR_TIME))]
    pub started: i64,
}

impl RunId {
    /// Run `started` of `fetcher`.
    #[must_use]
    pub fn new(fetcher: impl Into<String>, started: i64) -> Self {
        Self { fetcher: fetcher.into(), started }
    }
}

/// State of a run (CONTRACT QF06).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct RunState {
    /// The run.
    #[serde(flatten)]
    pub run: RunId,
    /// True if its file was read to the end under its final name.
    pub complete: bool,
}

/// Outcome of [`Storage::upsert_run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Upsert {
    /// The run exists.
    Done,
    /// Rows of a deleted run must leave first; nothing was changed. Call [`Storage::delete_slice`]
    /// until it returns [`Deletion::Idle`] or [`Deletion::Finished`], then call `upsert_run` again.
    Pending,
}

/// Outcome of [`Storage::delete_slice`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Deletion {
    /// No run is marked as deleted.
    Idle,
    /// Rows are left; call again in another transaction.
    More,
    /// This run is removed with its last row. Other runs may follow.
    Finished(RunId),
}

/// Returns true if a payload of `bytes` may be handed out while others of `held` bytes are not sent. One
/// alone always may.
pub const fn has_room(held: u64, bytes: u64) -> bool {
    held == 0 || held.saturating_add(bytes) <= UNSENT_BYTES_MAX
}

/// Maximum size of the payloads that are handed out and not sent, in bytes: one of a line of the maximum
/// length.
pub const UNSENT_BYTES_MAX: u64 = LINE_BYTES_MAX as u64;

/// Maximum number of bumped paths. Each dequeue examines all that are held, so the number is small.
pub const BUMPS_MAX: usize = 32;

/// Log of a storage, which another thread syncs while the storage goes on.
pub trait Log: Send + Sync {
    /// Makes all commits so far durable.
    ///
    /// # Errors
    /// [`StorageErrorKind::Unsynced`].
    fn sync(&self) -> Result<(), StorageError>;
}

/// Storage of the queue (CONTRACT QO01 to QO07).
///
/// All operations except those that begin one and [`Storage::stage`] need an open transaction. Each may
/// return an error of the backend. After an error other than [`StorageErrorKind::UnknownRun`] the caller must
/// roll back, and may try the operations again. `now` is wall-clock time in whole seconds, read after the
/// request arrived.
pub trait Storage {
    /// Begins a transaction and reads changes that others committed since the last one.
    ///
    /// # Errors
    /// [`StorageErrorKind::Busy`] if another process is writing; try again within milliseconds.
    fn begin(&mut self) -> Result<(), StorageError>;

    /// Begins a transaction that a power failure after its commit may undo. It is durable with the next
    /// commit of a transaction of [`Storage::begin`], or a sync of [`Storage::log`].
    ///
    /// # Errors
    /// As [`Storage::begin`].
    fn begin_unsynced(&mut self) -> Result<(), StorageError> {
        self.begin()
    }

    /// Returns the log if its sync makes transactions of [`Storage::begin_unsynced`] durable.
    fn log(&self) -> Option<Arc<dyn Log>> {
        None
    }

    /// Commits the transaction. Answers may be sent afterwards.
    ///
    /// # Errors
    /// On failure nothing is stored and the transaction is closed.
    fn commit(&mut self) -> Result<(), StorageError>;

    /// Rolls the transaction back. Does nothing without a transaction.
    ///
    /// # Errors
    /// If the backend cannot roll back; the store must then be opened again.
    fn rollback(&mut self) -> Result<(), StorageError>;

    /// Returns the known runs of files in any order, without those marked as deleted (CONTRACT QF06).
    fn known_runs(&mut self) -> Result<Vec<RunState>, StorageError>;

    /// Adds the run, and its fetcher if it is new, or updates the run's `complete` (CONTRACT QC05,
    /// QC08).
    fn upsert_run(&mut self, run: &RunId, complete: bool) -> Result<Upsert, StorageError>;

    /// Moves large payloads of the batch into the storage ahead of [`Storage::enqueue`], to save
    /// memory (CONTRACT QR16). Called outside of a transaction. Staged payloads stay valid until
    /// the next call that stages something.
    ///
    /// # Errors
    /// Of the backend. The payloads then stay in the batch, and `enqueue` works with more memory.
    fn stage(&mut self, _batch: &mut Batch) -> Result<(), StorageError> {
        Ok(())
    }

    /// Stores entries of `batch` from position `from` to its end or until `deadline`, at least one.
    /// Returns the position reached (CONTRACT QC17, QD14).
    ///
    /// # Errors
    /// [`StorageErrorKind::UnknownRun`] if the run does not exist or is marked as deleted; nothing is
    /// changed.
    fn enqueue(
        &mut self,
        run: &RunId,
        batch: &Batch,
        from: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, StorageError>;

    /// Counts since the last call. An entry is skipped if the storage cannot have it.
    fn take_skipped(&mut self) -> u64 {
        0
    }

    /// Marks a run as deleted, which hides all its rows at once. [`Storage::delete_slice`] removes
    /// the rows later. Returns false if the run does not exist.
    fn mark_deleted(&mut self, run: &RunId) -> Result<bool, StorageError>;

    /// Removes rows of deleted runs, and makes older rows available that these shadowed. It takes steps of
    /// some hundred rows as long as `may_continue` returns true after each. With its last row a run is
    /// removed, and its fetcher with its last run.
    fn delete_slice(&mut self, may_continue: &dyn Fn() -> bool) -> Result<Deletion, StorageError>;

    /// Carries out the operations of a batch at `now`, and returns their outcomes in the order of the batch.
    /// The backend chooses the order of operations of different requests. Hand-outs end where the payloads
    /// have no room beside the `unsent` bytes of others ([`has_room`]).
    fn serve(&mut self, batch: &[Operation<'_>], unsent: u64, now: i64)
    -> Result<Vec<Outcome>, StorageError>;

    /// Undoes all hand-outs without a recorded delivery, at a start after a crash. Returns their
    /// number.
    fn undo_undelivered(&mut self) -> Result<usize, StorageError>;

    /// Removes jobs of other subsystems that wait, which their owners offer again, and ends that nobody asked
    /// for within a week. At a start. Returns the number of jobs that waited.
    fn withdraw_waiting(&mut self, now: i64) -> Result<usize, StorageError>;
}
