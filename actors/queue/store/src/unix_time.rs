//! Wall-clock time.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns wall-clock time in whole seconds since 1970 (CONTRACT QO07).
pub fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
