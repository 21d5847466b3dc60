//! Checkpoints, and answers to operators, on connections of the housekeeper.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use orchestrator_queue_rules::storage::StorageError;
use orchestrator_queue_store::{Answering, IsAsked, Maintenance, Upkeep};
use orchestrator_supervise::PauseSpan;

use crate::{CheckpointMode, Checkpointed, Checkpointer, Inspector, SqliteQueue, pause_file};

/// Maximum number of passive checkpoints over a growing log before the store moves the rest.
const PASSES_MAX: usize = 6;
/// Number of pages that the store moves between two commits (measured: 4 to 9 ms for 700 random
/// pages).
const FINAL_PASS_PAGES: u64 = 800;

/// Connections of one incarnation of the housekeeper, each made for one call: an idle connection would keep
/// the log from being truncated.
pub(super) struct SqliteMaintenance {
    queue: SqliteQueue,
    timeout: Duration,
}

impl SqliteMaintenance {
    pub(super) fn new(queue: SqliteQueue, timeout: Duration) -> Self {
        // The store asks again for a checkpoint that a former incarnation did not finish.
        queue.wal_state.checkpoint_running.store(false, Relaxed);
        Self { queue, timeout }
    }

    /// Moves pages of the log into the database while the store writes, until few enough are left
    /// for the store. Returns false on a failure.
    ///
    /// A passive checkpoint alone never reaches the end of a log that grows. Each pass syncs the
    /// database file, or the store's own sync would wait for all pages (measured: 28 ms instead of
    /// 5 ms).
    fn shrink_log(&self) -> bool {
        for _ in 0..PASSES_MAX {
            let Some(done) = self.checkpoint(CheckpointMode::Passive) else {
                return false;
            };
            // A log that was reused meanwhile has fewer pages than were moved.
            let pages = self.queue.wal_state.pages.load(Relaxed);
            if pages.saturating_sub(done.checkpointed_pages) <= FINAL_PASS_PAGES {
                break;
            }
        }
        true
    }

    fn checkpoint(&self, mode: CheckpointMode) -> Option<Checkpointed> {
        let done = self.queue.checkpointer().and_then(|checkpointer| checkpointer.checkpoint(mode));
        if let Err(error) = &done {
            tracing::warn!(%error, "checkpoint failed: the write-ahead log is kept until the next one");
        }
        done.ok()
    }
}

impl SqliteQueue {
    pub(super) fn checkpointer(&self) -> Result<Checkpointer, StorageError> {
        self.wal_state.second_connection(&self.database, || Checkpointer::open(&self.database))
    }
}

impl Maintenance for SqliteMaintenance {
    fn questions(&mut self, is_asked: IsAsked) -> Result<Answering<'_>, StorageError> {
        let SqliteQueue { database, options, wal_state, .. } = &self.queue;
        let open = || Inspector::open(database, options.clone(), self.timeout);
        let inspector = wal_state.second_connection(database, open)?;
        Ok(Answering::Made(Box::new(inspector.while_asked(is_asked))))
    }

    fn upkeep(&mut self, upkeep: Upkeep) {
        match upkeep {
            Upkeep::Checkpoint => {
                let wal_state = &self.queue.wal_state;
                wal_state.final_pass_due.store(self.shrink_log(), Relaxed);
                wal_state.checkpoint_running.store(false, Relaxed);
            }
            Upkeep::Truncate => drop(self.checkpoint(CheckpointMode::Truncate)),
        }
    }

    fn record_pause(&mut self, pause: Option<PauseSpan>) -> Result<(), StorageError> {
        pause_file::record(&self.queue.database, pause)
    }
}
