//! Schedule of the reader: files to read, slice by slice in turn, and timers.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Instant,
};

use orchestrator_queue_rules::{
    file_name::{FetcherFile, FileKind},
    storage::RunId,
    tracking::{Cause, FileId},
};

/// One file of a run.
pub(super) type Key = (RunId, FileKind);

/// Maximum number of files read in turns; the others wait, which bounds open files.
const ACTIVE_MAX: usize = 32;

/// Action at a later time.
#[derive(Debug)]
pub(super) enum Timer {
    /// Check whether the file has not grown for long enough to be complete.
    Quiet(Key),
    /// Check a file for growth that inotify does not report.
    Poll(Key, FileId),
    /// Examine a file again after an error.
    Retry { file: FetcherFile, cause: Cause, failures: u32 },
    /// Read a file again after an error.
    Reread(Key),
    /// List the directory again.
    Rescan,
}

#[derive(Debug, Default)]
pub(super) struct Schedule {
    waiting: VecDeque<Key>,
    active: VecDeque<Key>,
    timers: BTreeMap<(Instant, u64), Timer>,
    next_timer: u64,
}

impl Schedule {
    pub(super) fn has_reading(&self) -> bool {
        !self.active.is_empty() || !self.waiting.is_empty()
    }

    /// Adds a file with bytes to read.
    pub(super) fn add(&mut self, key: Key) {
        self.waiting.push_back(key);
    }

    /// Adds a file back after a slice of it was read.
    pub(super) fn add_active(&mut self, key: Key) {
        self.active.push_back(key);
    }

    pub(super) fn next(&mut self) -> Option<Key> {
        while self.active.len() < ACTIVE_MAX
            && let Some(key) = self.waiting.pop_front()
        {
            self.active.push_back(key);
        }
        self.active.pop_front()
    }

    pub(super) fn at(&mut self, time: Instant, timer: Timer) {
        self.timers.insert((time, self.next_timer), timer);
        self.next_timer += 1;
    }

    pub(super) fn due(&mut self, now: Instant) -> Option<Timer> {
        let first = self.timers.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|(&(time, _), _)| time)
    }
}
