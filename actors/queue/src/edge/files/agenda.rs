//! What the reader does next: files to read, a slice of each in turn, and what is to be done at a certain time.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use crate::{
    file_name::{FetcherFile, FileKind},
    storage::RunId,
    tracking::{Cause, FileId},
};

/// One file of a run.
pub(super) type Key = (RunId, FileKind);

/// So many files are read in turns; the others wait, so that few are open at a time.
const ACTIVE_MAX: usize = 32;

/// Something to be done later.
#[derive(Debug)]
pub(super) enum Timer {
    /// Has the file been quiet long enough to be complete?
    Quiet(Key),
    /// Look whether a file grew whose changes inotify does not tell.
    Poll(Key, FileId),
    /// Look at a file again that could not be looked at.
    Retry { file: FetcherFile, cause: Cause, delay: Duration },
    /// Read a file again that could not be read.
    Reread(Key),
    /// List the directory again.
    Rescan,
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    waiting: VecDeque<Key>,
    active: VecDeque<Key>,
    timers: BTreeMap<(Instant, u64), Timer>,
    next_timer: u64,
}

impl Agenda {
    pub(super) fn has_reading(&self) -> bool {
        !self.active.is_empty() || !self.waiting.is_empty()
    }

    /// A file that has something to read.
    pub(super) fn add(&mut self, key: Key) {
        self.waiting.push_back(key);
    }

    /// A file of which a slice was read and that has more.
    pub(super) fn add_active(&mut self, key: Key) {
        self.active.push_back(key);
    }

    /// The file whose turn it is.
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

    /// A timer whose time has come.
    pub(super) fn due(&mut self, now: Instant) -> Option<Timer> {
        let first = self.timers.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the next timer is due.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|(&(time, _), _)| time)
    }
}
