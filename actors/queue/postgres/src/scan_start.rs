//! Where hand-outs begin to look for rows that wait, and whether there are any.
//!
//! Rows that were handed out stay in the index until no transaction of the server can see them. Each class of
//! limits therefore has a scan start: the key from which hand-outs read (SQL function `scan_start_of`). Rows
//! that this session adds lower it in the same transaction. Rows of other sessions lower it when their
//! notification comes. A notification is sent only while somebody waits for one, and a row may come back
//! without one. So once a second a hand-out is a full scan. If that takes long, it is done less often.

use std::{ops::Range, sync::Arc, time::Duration};

use orchestrator_queue_rules::storage::Operation;
use parking_lot::Mutex;

/// Key of a row that waits: the start of the last hand-out, and the jitter.
type Key = [i64; 2];
/// Key before all rows.
pub(super) const FIRST_KEY: Key = [i64::MIN, i32::MIN as i64];
/// A full scan is followed by this many times its duration without one.
const FULL_SCAN_PAUSE: u32 = 20;

/// Smallest key of the rows that other sessions have added, as far as the store does not know it.
#[derive(Debug, Clone, Default)]
pub struct AddedKeys(Arc<Mutex<Option<Key>>>);

impl AddedKeys {
    /// Adds the key of a notification, an array such as `{12,3}`. Any role may send one: another text, or a
    /// number that no key has, is ignored.
    pub fn add(&self, payload: &str) {
        let numbers = payload.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')?.split_once(','));
        let key =
            numbers.and_then(|(started, jitter)| Some((started.parse().ok()?, jitter.parse::<i32>().ok()?)));
        if let Some((started, jitter)) = key {
            self.add_key([started, i64::from(jitter)]);
        }
    }

    /// Adds keys that are not known: the next hand-out is a full scan.
    pub fn add_unknown(&self) {
        self.add_key(FIRST_KEY);
    }

    fn add_key(&self, key: Key) {
        let mut added = self.0.lock();
        *added = Some(added.map_or(key, |known| known.min(key)));
    }
}

/// State of the search for rows that wait.
#[derive(Debug)]
pub(super) struct ScanStart {
    added: AddedKeys,
    /// Times at which hand-outs are no full scans, in seconds since 1970, except that at the first one.
    partial: Range<i64>,
    /// Time of a hand-out that found too few rows, unless this session has done something since. Rows
    /// whose hold ends meanwhile are seen at the next second.
    pub(super) nothing_at: Option<i64>,
    /// True if the session has the lock that asks others for notifications.
    pub(super) is_waiting: bool,
}

impl ScanStart {
    pub(super) const fn new(added: AddedKeys) -> Self {
        Self { added, partial: 0..0, nothing_at: None, is_waiting: false }
    }

    /// Begins again, after a transaction that was not committed.
    pub(super) fn forget(&mut self) {
        (self.partial, self.nothing_at) = (0..0, None);
    }

    /// Begins again with a session that has no scan starts and no lock.
    pub(super) fn of_new_session(&mut self) {
        self.forget();
        self.is_waiting = false;
    }

    /// Returns true if this batch only asks for jobs, and none is left at `now` as far as is known.
    pub(super) fn is_nothing_left(&self, batch: &[Operation<'_>], now: i64) -> bool {
        self.nothing_at == Some(now)
            && self.added.0.lock().is_none()
            && batch.iter().all(|operation| matches!(operation, Operation::Worker { done: None, .. }))
    }

    /// Returns the key to which a hand-out at `now` lowers the scan starts, if any.
    pub(super) fn lowered_to(&mut self, now: i64) -> Option<Key> {
        let added = self.added.0.lock().take();
        if self.partial.contains(&now) {
            return added;
        }
        self.partial = now..now + 1;
        Some(FIRST_KEY)
    }

    /// Records how long a full scan took.
    pub(super) fn record_full_scan(&mut self, took: Duration) {
        let seconds = (took * FULL_SCAN_PAUSE).as_secs();
        self.partial.end = self.partial.start.saturating_add_unsigned(1 + seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_key_has_are_ignored() {
        let added = AddedKeys::default();
        for payload in
            ["", "{}", "last", "{1}", "1,2", "{1,2,3}", "{1,2147483648}", "{-9223372036854775809,0}"]
        {
            added.add(payload);
            assert_eq!(*added.0.lock(), None, "{payload}");
        }
        added.add("{12,-3}");
        assert_eq!(*added.0.lock(), Some([12, -3]));
    }

    #[test]
    fn full_scans_take_a_twentieth_of_the_time() {
        let mut start = ScanStart::new(AddedKeys::default());
        let full_scans = |start: &mut ScanStart, times: &[i64]| -> Vec<bool> {
            times.iter().map(|now| start.lowered_to(*now) == Some(FIRST_KEY)).collect()
        };
        assert_eq!(full_scans(&mut start, &[100, 100, 101]), [true, false, true]);
        start.record_full_scan(Duration::from_millis(150));
        assert_eq!(full_scans(&mut start, &[102, 104, 105, 105]), [false, false, true, false]);
        assert_eq!(full_scans(&mut start, &[50, 50]), [true, false], "the clock was set back");
    }
}
