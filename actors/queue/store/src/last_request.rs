//! Activity of workers: at this instance, and in the log.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_queue_rules::unserved::AWAY_AFTER_SECS;
use parking_lot::Mutex;

use crate::unix_time;

/// Query of the columns of [`LogTimes`](orchestrator_queue_rules::unserved::LogTimes), in order. `$1` is a
/// day ago. Reads the whole log.
pub const LOG_TIMES: &str =
    "SELECT count(*) FILTER (WHERE finished IS NULL), max(started) FILTER (WHERE finished IS NULL),
    max(finished - started) FILTER (WHERE exit_code IS NOT NULL AND finished >= $1), max(started),
    max(finished) FILTER (WHERE exit_code IS NOT NULL) FROM log";

/// Time of the last request of a worker. Clones share it.
///
/// Shared instead of sent in messages: only the latest value counts, once a second.
#[derive(Debug, Clone, Default)]
pub struct LastRequest(Arc<Mutex<Option<(Instant, i64)>>>);

impl LastRequest {
    /// Records a request.
    pub fn record(&self) {
        *self.0.lock() = Some((Instant::now(), unix_time()));
    }

    /// Returns true if a worker has asked a short time ago.
    #[must_use]
    pub fn is_recent(&self) -> bool {
        let last = *self.0.lock();
        last.is_some_and(|(at, _)| at.elapsed() < Duration::from_secs(AWAY_AFTER_SECS))
    }

    /// None if no worker has asked since the start.
    #[must_use]
    pub fn unix_time(&self) -> Option<i64> {
        self.0.lock().map(|(_, unix_time)| unix_time)
    }
}
