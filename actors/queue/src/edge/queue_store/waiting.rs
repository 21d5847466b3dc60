//! Reports of the store: a full disk, and the jobs that wait, checked once a second.

use std::time::{Duration, Instant};

use orchestrator_queue_rules::storage::{StorageError, Waiting};

use orchestrator_queue_store::unix_time;

use super::{QueueStore, StoreRun, blockers};

/// Time for which a full disk stays reported after the last failure, because small writes may
/// succeed in between.
const FULL_REPORTED: Duration = Duration::from_secs(2);

impl StoreRun<'_> {
    /// Reports a failure for lack of space.
    pub(super) fn report_full(&mut self, error: &StorageError) {
        self.full_at = Some(Instant::now());
        blockers::report_full(&self.cx.vitals, error);
    }

    /// Reports whether jobs wait, and whether all of them are held.
    pub(super) fn report_waiting(&mut self) {
        if self.full_at.is_some_and(|at| at.elapsed() < FULL_REPORTED) {
            return;
        }
        self.full_at = None;
        let vitals = &self.cx.vitals;
        match self.store.waiting(unix_time()) {
            Ok(Waiting::Held(held)) => {
                vitals.set_work_waits(true);
                blockers::report_held(vitals, &held, self.spec.config.hold_secs);
            }
            Ok(Waiting::Limited { attr_path, limit }) => {
                vitals.set_work_waits(true);
                blockers::report_limited(vitals, &attr_path, &limit);
            }
            Ok(Waiting::Unserved(unserved)) => {
                vitals.set_work_waits(true);
                let QueueStore { store, config, .. } = self.spec;
                blockers::report_unserved(vitals, &unserved, &config.socket, store.is_shared());
            }
            Ok(waiting) => {
                vitals.set_work_waits(waiting == Waiting::Ready);
                vitals.clear_blocker();
            }
            // The next transaction reports it.
            Err(error) => tracing::debug!(%error, "cannot read the waiting jobs"),
        }
    }
}
