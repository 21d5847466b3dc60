//! PostgreSQL as the store of the thread.

use std::time::Duration;

use orchestrator_queue_rules::storage::{Storage, StorageError, Waiting};
use orchestrator_queue_store::OpenStore;
use orchestrator_supervise::StartCx;

use crate::{PostgresQueue, PostgresStore, Settings, pooler, watch::WaitingJobs};

/// Longest wait for workers that were given jobs.
const GATHER_MAX: Duration = Duration::from_millis(5);

/// The store, and the jobs that wait, as last seen by another thread.
pub(super) struct OpenPostgres {
    store: PostgresStore,
    waiting: WaitingJobs,
}

impl OpenPostgres {
    pub(super) fn new(queue: &PostgresQueue, cx: &StartCx) -> Result<Self, StorageError> {
        let settings = Settings::read(&queue.config)?;
        pooler::check(&settings, &cx.stop)?;
        let store = PostgresStore::open(settings, &queue.incarnation, queue.added.clone(), cx.stop.clone())?;
        Ok(Self { store, waiting: queue.waiting.clone() })
    }
}

impl OpenStore for OpenPostgres {
    fn storage(&mut self) -> &mut dyn Storage {
        &mut self.store
    }

    /// A transaction for one worker takes a third of the time of one for sixty-four.
    fn gathering_time(&self, took: Duration) -> Duration {
        (took / 8).min(GATHER_MAX)
    }

    /// The question would delay the turns: it reads all rows that somebody's transaction keeps.
    fn waiting(&mut self, _now: i64) -> Result<Waiting, StorageError> {
        Ok(self.waiting.get())
    }

    fn close(self: Box<Self>) {
        self.store.close();
    }
}
