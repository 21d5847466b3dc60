//! State of one attribute path, and the operations on it.

use super::GroupKey;

/// Row of `log`: the last hand-out of an attribute path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRow {
    /// Time of the hand-out, in unix seconds.
    pub started: i64,
    /// Time of the DONE, in unix seconds; None while in flight.
    pub finished: Option<i64>,
    /// Exit code that the worker reported.
    pub exit_code: Option<i64>,
}

/// Returns true if a job of this path is in flight and its hold of `hold` seconds is not over. At
/// exactly `started + hold` it is still held (CONTRACT QO02).
pub fn is_held(log: Option<&LogRow>, now: i64, hold: i64) -> bool {
    log.is_some_and(|log| log.finished.is_none() && !is_expired(log.started, now, hold))
}

/// True once the hold of a job that began at `started` is over.
pub fn is_expired(started: i64, now: i64, hold: i64) -> bool {
    i128::from(started) + i128::from(hold) < i128::from(now)
}

/// Number of the limit of a group, from 1; 0 is the class of unlimited groups.
pub type Class = u8;

/// Row of `queue` without its texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Number of the row in its table.
    pub rowid: i64,
    /// Number of the fetcher.
    pub fetcher_id: i64,
    /// Run that lists the path.
    pub run_started: i64,
    /// Class of the group.
    pub class: Class,
    /// True if a hand-out has used the row.
    pub is_dequeued: bool,
    /// Copy of the log's `started`.
    pub last_started: Option<i64>,
    /// Copy of the jitter hash.
    pub order_jitter: Option<i64>,
}

/// Section of the index: the ready groups of one run with the same hold state and class. In a section of
/// held groups the hold of the first ends first, so the others need no check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Section {
    /// Number of the fetcher.
    pub fetcher_id: i64,
    /// Run of the representative rows.
    pub run_started: i64,
    /// Class of the groups.
    pub class: Class,
    /// True if a job of each attribute path is in flight, whenever it started.
    pub held: bool,
}

/// Position of a ready group in the index: section and key. A group is ready if its representative
/// row is not dequeued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPosition {
    /// Section of the group.
    pub section: Section,
    /// `last_started` of the representative row.
    pub last_started: Option<i64>,
    /// `order_jitter` of the representative row.
    pub order_jitter: Option<i64>,
}

impl GroupPosition {
    /// Compares all of the key but the attribute path.
    pub fn has_key(&self, key: &GroupKey) -> bool {
        self.section.fetcher_id == key.fetcher_id
            && self.last_started == key.last_started
            && self.order_jitter == key.order_jitter
    }

    /// Key of the group in the order of hand-outs.
    pub fn key(&self, attr_path: &str) -> GroupKey {
        GroupKey {
            last_started: self.last_started,
            order_jitter: self.order_jitter,
            attr_path: attr_path.to_owned(),
            fetcher_id: self.section.fetcher_id,
        }
    }
}

/// All rows of one attribute path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttrState {
    /// Its last hand-out.
    pub log: Option<LogRow>,
    /// Its `queue` rows of all fetchers and runs, except deleted runs.
    pub rows: Vec<Row>,
}

/// Changes of a hand-out, sufficient to undo it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    /// Number of the fetcher whose group was handed out.
    pub fetcher_id: i64,
    /// Time of the hand-out, in unix seconds.
    pub started: i64,
    /// Runs whose rows the hand-out marked as dequeued.
    pub runs: Vec<i64>,
    /// Hand-out of the path before this one.
    pub previous: Option<LogRow>,
}

impl AttrState {
    /// The row of the newest run (CONTRACT QO01).
    pub fn representative(&self, fetcher_id: i64) -> Option<&Row> {
        self.rows.iter().filter(|row| row.fetcher_id == fetcher_id).max_by_key(|row| row.run_started)
    }

    /// Ready groups only, at most one per fetcher.
    pub fn positions(&self) -> Vec<GroupPosition> {
        let held = self.log.is_some_and(|log| log.finished.is_none());
        let mut positions: Vec<GroupPosition> = Vec::new();
        for row in &self.rows {
            let represents = self
                .representative(row.fetcher_id)
                .is_some_and(|first| first.run_started == row.run_started && !row.is_dequeued);
            if represents {
                let Row { fetcher_id, run_started, class, last_started, order_jitter, .. } = *row;
                let section = Section { fetcher_id, run_started, class, held };
                positions.push(GroupPosition { section, last_started, order_jitter });
            }
        }
        positions
    }

    /// Hands out the group of `fetcher_id` at `now` (CONTRACT QO04).
    pub fn dispatch(&mut self, fetcher_id: i64, now: i64) -> Dispatch {
        let mut runs = Vec::with_capacity(1);
        for row in &mut self.rows {
            if row.fetcher_id == fetcher_id && !row.is_dequeued {
                row.is_dequeued = true;
                runs.push(row.run_started);
            }
        }
        let previous = self.log;
        self.set_log(Some(LogRow { started: now, finished: None, exit_code: None }));
        Dispatch { fetcher_id, started: now, runs, previous }
    }

    /// Records the end of a job with its exit code, which ends the hold of its path. The rows of the
    /// queue stay as they are. Returns when the job was handed out; None without a log row (CONTRACT QO06).
    pub fn finish(&mut self, exit_code: i64, now: i64) -> Option<i64> {
        let log = self.log.as_mut()?;
        log.finished = Some(now);
        log.exit_code = Some(exit_code);
        Some(log.started)
    }

    /// Reverts `dispatch`. Returns false, without a change, if the path was finished or started again
    /// since, by another program.
    pub fn undo(&mut self, dispatch: &Dispatch) -> bool {
        if !self.log.is_some_and(|log| log.started == dispatch.started && log.finished.is_none()) {
            return false;
        }
        self.restore_rows(dispatch);
        self.set_log(dispatch.previous);
        true
    }

    /// Makes the rows of `dispatch` ready again without changing the log, after an expired hold.
    pub fn restore_rows(&mut self, dispatch: &Dispatch) {
        for row in &mut self.rows {
            if row.fetcher_id == dispatch.fetcher_id && dispatch.runs.contains(&row.run_started) {
                row.is_dequeued = false;
            }
        }
    }

    /// Marks every row as dequeued, for a path that no DONE line can report.
    pub fn mark_dequeued(&mut self) {
        for row in &mut self.rows {
            row.is_dequeued = true;
        }
    }

    /// Makes every row ready and ends a hold. Returns the number of changed rows and whether a hold
    /// was ended.
    pub fn requeue(&mut self, now: i64) -> (usize, bool) {
        let mut changed = 0;
        for row in &mut self.rows {
            changed += usize::from(row.is_dequeued);
            row.is_dequeued = false;
        }
        let in_flight = self.log.filter(|log| log.finished.is_none());
        if let Some(log) = in_flight {
            self.log = Some(LogRow { finished: Some(now), ..log });
        }
        (changed, in_flight.is_some())
    }

    /// Sets `last_started` of all rows to the log's value, which the hand-out order relies on.
    pub fn sync_last_started(&mut self) {
        if let Some(log) = self.log {
            self.set_log(Some(log));
        }
    }

    /// True if another program has changed the log alone.
    pub fn has_stale_last_started(&self) -> bool {
        self.log.is_some_and(|log| self.rows.iter().any(|row| row.last_started != Some(log.started)))
    }

    fn set_log(&mut self, log: Option<LogRow>) {
        self.log = log;
        for row in &mut self.rows {
            row.last_started = log.map(|log| log.started);
        }
    }
}
