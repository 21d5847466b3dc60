//! Detects other processes that write to the database and leaves them time for it.
//!
//! SQLite's write lock is not fair: whoever retries first gets it. A waiting program retries about every 100
//! ms, usually for 5 s, and may fail beside a store that never pauses. Once another process writes, the store
//! leaves it a third of the time. So one of its about 55 tries is very likely to succeed.

use std::time::{Duration, Instant};

/// Time after its last commit for which another process counts as a writer.
const WRITER_TIMEOUT: Duration = Duration::from_secs(10);
/// Divisor of the last transaction's duration that gives the pause.
const PAUSE_DIVISOR: u32 = 2;
/// Maximum pause; workers wait for it. It is reached only on a busy or slow disk.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Signs of other processes that write.
#[derive(Debug, Default)]
pub(super) struct OtherWriters {
    last_commit: Option<Instant>,
    /// True if the next change is made by a connection of this process.
    own_change: bool,
}

impl OtherWriters {
    /// Records a commit by another connection.
    pub(super) fn record_commit(&mut self) {
        if !std::mem::take(&mut self.own_change) {
            self.last_commit = Some(Instant::now());
        }
    }

    /// Announces that a connection of this process truncates the log, which looks like a commit.
    pub(super) fn expect_own_change(&mut self) {
        self.own_change = true;
    }

    pub(super) fn pause_after(&self, took: Duration) -> Duration {
        match self.last_commit {
            Some(at) if at.elapsed() < WRITER_TIMEOUT => (took / PAUSE_DIVISOR).min(PAUSE_MAX),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recent_writers_get_a_bounded_pause() {
        let mut other_writers = OtherWriters::default();
        assert_eq!(other_writers.pause_after(Duration::from_millis(4)), Duration::ZERO);
        other_writers.expect_own_change();
        other_writers.record_commit();
        assert_eq!(other_writers.pause_after(Duration::from_millis(4)), Duration::ZERO);
        other_writers.record_commit();
        assert_eq!(other_writers.pause_after(Duration::from_millis(4)), Duration::from_millis(2));
        // A third of the time also on a slow disk.
        assert_eq!(other_writers.pause_after(Duration::from_millis(120)), Duration::from_millis(60));
        assert_eq!(other_writers.pause_after(Duration::from_secs(1)), PAUSE_MAX);
        other_writers.last_commit = Instant::now().checked_sub(WRITER_TIMEOUT);
        assert_eq!(other_writers.pause_after(Duration::from_millis(4)), Duration::ZERO);
    }
}
