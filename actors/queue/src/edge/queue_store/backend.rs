//! Trait of the kinds of stores: what the thread calls between transactions.

use std::time::Duration;

use orchestrator_edge::{FileReplaced, LinkState};
use orchestrator_queue_rules::storage::{Storage, StorageError, Waiting};
use orchestrator_supervise::{Fault, LinkFailure, StartCx};

use super::{child::QueueStore, stopped::Stopped};
use crate::store_metrics::StoreMetrics;

/// Store of one kind, opened by each incarnation of the thread. Calls are between transactions.
pub(super) trait Backend: Sized {
    /// Declares the link to the database.
    fn link(spec: &QueueStore, cx: &StartCx) -> LinkState;

    /// Reason and help for that link.
    fn link_failure(error: &StorageError) -> LinkFailure;

    /// Prepares an opening: nothing of a former incarnation is open.
    fn closed(_spec: &QueueStore) {}

    fn open(spec: &QueueStore, cx: &StartCx) -> Result<Self, StorageError>;

    /// Repairs the cause of a failed opening. Returns false if it cannot.
    ///
    /// # Errors
    /// It must not be repaired.
    fn repair(_spec: &QueueStore, _error: &StorageError) -> Result<bool, Fault> {
        Ok(false)
    }

    fn storage(&mut self) -> &mut dyn Storage;

    fn waiting(&mut self, now: i64) -> Result<Waiting, StorageError>;

    /// Called once a second. Nothing may be written until it succeeds.
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
    fn gathers(&self, _took: Duration) -> Duration {
        Duration::ZERO
    }

    /// Called after each turn of `took`.
    fn turned(&mut self, _took: Duration, _metrics: &StoreMetrics) {}

    /// Called when no work has come for a while.
    fn rest(&mut self) {}

    /// Looks at the error of an operation before it is tried again.
    fn examine(&mut self, _error: &StorageError) -> Result<(), Stopped> {
        Ok(())
    }

    /// Closes the store at a stop.
    fn close(self) {}

    /// Closes a store one of whose files was replaced. Returns false when asked to stop.
    fn close_replaced(self, _link: &LinkState, _replaced: &FileReplaced) -> bool {
        true
    }
}
