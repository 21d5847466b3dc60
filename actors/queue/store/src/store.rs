//! Trait of the kinds of stores.

use std::{sync::Arc, time::Duration};

use orchestrator_edge::LinkState;
use orchestrator_observe::LinkFailure;
use orchestrator_queue_rules::{listing::Listing, storage::StorageError};
use orchestrator_subsystem::BackupSet;
use orchestrator_supervise::{ChildSpec, Fault, PauseSpan, StartCx, StopToken};

use crate::{
    LastRequest, Maintenance, OpenStore, Upkeep,
    migration::{Source, Target},
};

/// Handles of the application for the children of a store.
#[derive(Clone)]
pub struct Wiring {
    /// Time of the last request of a worker at this instance.
    pub last_request: LastRequest,
    /// Asks the housekeeper for upkeep. Returns false if it has too much to do.
    pub upkeep: Arc<dyn Fn(Upkeep) -> bool + Send + Sync>,
    /// Tells the reader of files that fetchers were moved between instances. Returns false if it has to be
    /// told again.
    pub fetchers_moved: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// Where a queue is stored. What incarnations of its children share belongs to the value.
pub trait Store: Send + Sync {
    /// Path or address, without a password.
    fn place(&self) -> String;

    /// True if other instances may use the same queue.
    fn is_shared(&self) -> bool;

    /// Reports errors that no restart can fix.
    ///
    /// # Errors
    /// Somebody has to change something before the store can be opened.
    fn preflight(&self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Files of this store.
    fn files_to_back_up(&self) -> BackupSet;

    /// Pause of hand-outs at a start; None if the queue is not paused, or the store is shared.
    fn pause(&self) -> Option<PauseSpan>;

    /// Time that the last answers to workers may take at a stop; None if a commit does not wait for others.
    fn last_answer(&self) -> Option<Duration> {
        None
    }

    /// Children that start before the thread of the store.
    fn first_children(&self, _wiring: &Wiring) -> Vec<ChildSpec> {
        Vec::new()
    }

    /// Children that start after all others.
    fn last_children(&self, _wiring: &Wiring) -> Vec<ChildSpec> {
        Vec::new()
    }

    /// Declares the link of the thread to the database.
    fn link(&self, cx: &StartCx) -> LinkState;

    /// Reason and help for that link.
    fn link_failure(&self, error: &StorageError) -> LinkFailure;

    /// Prepares an opening: nothing of a former incarnation is open.
    fn before_open(&self) {}

    /// Opens the store. Called by each incarnation of the thread.
    ///
    /// # Errors
    /// Of the backend; one that [`StorageError::is_retryable`] is followed by another call.
    fn open(&self, cx: &StartCx, wiring: &Wiring) -> Result<Box<dyn OpenStore>, StorageError>;

    /// Repairs the cause of a failed opening. Returns false if it cannot.
    ///
    /// # Errors
    /// It must not be repaired.
    fn repair(&self, _error: &StorageError) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Makes what the housekeeper uses, on connections of its own. A question takes at most `timeout`.
    fn maintenance(&self, timeout: Duration, stop: &StopToken) -> Box<dyn Maintenance>;

    /// Reads the groups of the queue from another process than the one that has the store open. `now` is in
    /// unix seconds.
    ///
    /// # Errors
    /// Of the backend, also after `timeout`.
    fn listing(&self, now: i64, timeout: Duration) -> Result<Listing, StorageError>;

    /// Opens the queue to be copied.
    ///
    /// # Errors
    /// Of the backend; while an instance uses it.
    fn source(&self) -> Result<Box<dyn Source>, StorageError>;

    /// Opens a store without rows, or with those of an unfinished migration, to be filled.
    ///
    /// # Errors
    /// As [`Self::source`]; it has rows.
    fn target(&self) -> Result<Box<dyn Target>, StorageError>;
}
