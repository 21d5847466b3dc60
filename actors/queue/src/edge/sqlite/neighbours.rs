//! Other processes that write to the database, and the room they are left for it.
//!
//! SQLite's lock is nobody's turn: it goes to whoever tries while it is free. A program that waits for it tries every 100 ms
//! or so, for 5 s as a rule, and beside a store that never rests it may give up. So, once another process is known to
//! write, a third of the time is left to it: of the 55 tries one succeeds for sure, as far as chance allows to say that.

use std::time::{Duration, Instant};

/// For so long after its commit another process counts as one that writes.
const WRITES: Duration = Duration::from_secs(10);
/// A pause is this part of the transaction before it.
const PART: u32 = 2;
/// Longest pause: workers wait for it.
const LONGEST: Duration = Duration::from_millis(5);

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    wrote_at: Option<Instant>,
    /// The next sign of a change is not theirs.
    own_change: bool,
}

impl Neighbours {
    /// There is a sign that another connection committed.
    pub(super) fn wrote(&mut self) {
        if !std::mem::take(&mut self.own_change) {
            self.wrote_at = Some(Instant::now());
        }
    }

    /// A connection of ours is about to cut the log, which looks like a commit.
    pub(super) fn expect_own_change(&mut self) {
        self.own_change = true;
    }

    /// How long to pause after a transaction of `took`.
    pub(super) fn room_after(&self, took: Duration) -> Duration {
        match self.wrote_at {
            Some(at) if at.elapsed() < WRITES => (took / PART).min(LONGEST),
            _ => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_writes_gets_room_and_workers_do_not_wait_long_for_it() {
        let mut neighbours = Neighbours::default();
        assert_eq!(neighbours.room_after(Duration::from_millis(4)), Duration::ZERO);
        neighbours.expect_own_change();
        neighbours.wrote();
        assert_eq!(neighbours.room_after(Duration::from_millis(4)), Duration::ZERO);
        neighbours.wrote();
        assert_eq!(neighbours.room_after(Duration::from_millis(4)), Duration::from_millis(2));
        assert_eq!(neighbours.room_after(Duration::from_secs(1)), LONGEST);
        neighbours.wrote_at = Instant::now().checked_sub(WRITES);
        assert_eq!(neighbours.room_after(Duration::from_millis(4)), Duration::ZERO);
    }
}
