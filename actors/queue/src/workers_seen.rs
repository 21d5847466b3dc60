//! Open connections of workers and their rate, for explanations of single jobs.

use std::{collections::BTreeMap, sync::Arc};

use orchestrator_queue_rules::storage::Sample;
use orchestrator_queue_store::unix_time;
use parking_lot::Mutex;

/// Open connections and the rate of the last hour. Clones share them.
///
/// Shared instead of sent in messages: only the latest values count, when an operator asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkersSeen(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// Names of the open connections with the times at which they were opened, in unix seconds.
    connections: BTreeMap<Arc<str>, i64>,
    /// Number of waiting jobs, and the seconds until none waits at the rate of the last hour.
    pace: Option<(u64, u64)>,
}

impl WorkersSeen {
    /// Forgets the connections of a former incarnation of the socket.
    pub(crate) fn begin(&self) {
        self.0.lock().connections.clear();
    }

    pub(crate) fn opened(&self, connection: &Arc<str>) {
        self.0.lock().connections.insert(connection.clone(), unix_time());
    }

    pub(crate) fn closed(&self, connection: &str) {
        self.0.lock().connections.remove(connection);
    }

    /// True if a connection of this name was opened no later than `since`, in unix seconds, and still is. A
    /// restarted process gives the same names again.
    pub(crate) fn is_open(&self, connection: &str, since: i64) -> bool {
        self.0.lock().connections.get(connection).is_some_and(|opened| *opened <= since)
    }

    pub(crate) fn counted(&self, sample: &Sample) {
        let pace = sample.time_to_empty.filter(|_| sample.waiting > 0).map(|secs| (sample.waiting, secs));
        self.0.lock().pace = pace;
    }

    /// Seconds in which `jobs` jobs are handed out, at the rate of the last hour. None if fewer than 10 jobs
    /// ended in it.
    pub(crate) fn secs_for(&self, jobs: u64) -> Option<u64> {
        let (waiting, secs) = self.0.lock().pace?;
        Some(jobs.saturating_mul(secs).div_ceil(waiting))
    }
}
