//! PostgreSQL as the store of the thread.

use std::time::Duration;

use orchestrator_edge::{LinkState, RetryPolicy};
use orchestrator_queue_rules::storage::{Storage, StorageError, Waiting};
use orchestrator_supervise::{LinkFailure, StartCx};

use super::{backend::Backend, child::QueueStore};
use crate::edge::postgres::{PostgresStore, Settings, WaitingJobs, link_failure, pooler};

/// Longest wait for workers that were given jobs.
const GATHER_MAX: Duration = Duration::from_millis(5);

/// The store, and the jobs that wait, as last seen by another thread.
pub(super) struct PostgresBackend {
    store: PostgresStore,
    waiting: WaitingJobs,
}

impl Backend for PostgresBackend {
    fn link(spec: &QueueStore, cx: &StartCx) -> LinkState {
        LinkState::new(cx, "postgres", spec.config.postgres.endpoint(), RetryPolicy::REMOTE)
    }

    fn link_failure(error: &StorageError) -> LinkFailure {
        link_failure(error)
    }

    fn open(spec: &QueueStore, cx: &StartCx) -> Result<Self, StorageError> {
        let (settings, added, stop) = (Settings::read(&spec.config)?, spec.added.clone(), cx.stop.clone());
        pooler::check(&settings, &cx.stop)?;
        let store = PostgresStore::open(settings, &spec.incarnation, added, stop)?;
        Ok(Self { store, waiting: spec.waiting.clone() })
    }

    fn storage(&mut self) -> &mut dyn Storage {
        &mut self.store
    }

    /// A transaction for one worker takes a third of the time of one for sixty-four.
    fn gathers(&self, took: Duration) -> Duration {
        (took / 8).min(GATHER_MAX)
    }

    /// The question would delay the turns: it reads all rows that somebody's transaction keeps.
    fn waiting(&mut self, _now: i64) -> Result<Waiting, StorageError> {
        Ok(self.waiting.get())
    }

    fn close(self) {
        self.store.close();
    }
}
