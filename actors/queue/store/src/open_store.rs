//! Trait of an open store: what its thread calls between transactions.

use std::time::Duration;

use orchestrator_edge::{FileReplaced, LinkState};
use orchestrator_queue_rules::storage::{Storage, StorageError, Waiting};
use orchestrator_supervise::Fault;

/// Store that one incarnation of the thread has opened. Calls are between transactions.
pub trait OpenStore {
    /// The store inside of transactions.
    fn storage(&mut self) -> &mut dyn Storage;

    /// Jobs that wait at `now`, in unix seconds.
    ///
    /// # Errors
    /// Of the backend.
    fn waiting(&mut self, now: i64) -> Result<Waiting, StorageError>;

    /// Called once a second. Nothing may be written until it succeeds.
    ///
    /// # Errors
    /// A file of the database was replaced, or another instance uses it.
    fn check(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Work besides ingest and deletion is due.
    fn has_background(&self) -> bool {
        false
    }

    /// Does that work in place of a turn.
    fn run_background(&mut self) {}

    /// Returns how long the next turn waits for the workers that one of `took` has given jobs.
    fn gathering_time(&self, _took: Duration) -> Duration {
        Duration::ZERO
    }

    /// Called after each turn of `took`.
    fn after_turn(&mut self, _took: Duration) {}

    /// Called when no work has come for a while.
    fn on_idle(&mut self) {}

    /// Looks at the error of an operation before it is tried again.
    ///
    /// # Errors
    /// The incarnation ends.
    fn before_retry(&mut self, _error: &StorageError) -> Result<(), Stopped> {
        Ok(())
    }

    /// Closes the store at a stop.
    fn close(self: Box<Self>);

    /// Closes a store one of whose files was replaced. Returns false when asked to stop.
    fn close_replaced(self: Box<Self>, _link: &LinkState, _replaced: &FileReplaced) -> bool {
        true
    }
}

/// Reason to run no further turn.
pub enum Stopped {
    /// The child is asked to stop.
    StopRequested,
    /// A file of the database was replaced, so the database must be opened again.
    Replaced(FileReplaced),
    /// No restart of this incarnation helps.
    Failed(Fault),
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl From<FileReplaced> for Stopped {
    fn from(replaced: FileReplaced) -> Self {
        Self::Replaced(replaced)
    }
}
