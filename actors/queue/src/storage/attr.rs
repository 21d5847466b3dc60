//! All that is stored about one attribute path, and what the operations make of it.

use super::GroupKey;

/// A row of `log`: the last start of an attribute path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRow {
    /// When it was handed out, in unix seconds.
    pub started: i64,
    /// When it was done; none while in flight.
    pub finished: Option<i64>,
    /// What the worker reported.
    pub exit_code: Option<i64>,
}

/// Whether a job of this attribute path must not be handed out at `now`: one is in flight and its hold of `hold` seconds
/// is not over. At exactly `started + hold` it still holds (CONTRACT QO02).
#[must_use]
pub fn is_held(log: Option<&LogRow>, now: i64, hold: i64) -> bool {
    log.is_some_and(|log| log.finished.is_none() && !is_expired(log.started, now, hold))
}

/// Whether the hold of a job started at `started` is over.
#[must_use]
pub fn is_expired(started: i64, now: i64, hold: i64) -> bool {
    i128::from(started) + i128::from(hold) < i128::from(now)
}

/// A row of `queue` without its texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The backend's name of the row.
    pub rowid: i64,
    /// The fetcher.
    pub fetcher_id: i64,
    /// The run.
    pub run_started: i64,
    /// Whether a hand-out has used it up.
    pub is_dequeued: bool,
    /// Copy of the log's `started`.
    pub last_started: Option<i64>,
    /// Copy of the jitter hash.
    pub order_jitter: Option<i64>,
}

/// Where a ready group (one whose representative is not dequeued) stands: in which section and at which key.
///
/// A section holds the ready groups of one representing run with one state of hold. Within a section of held groups the
/// first is the one whose hold ends first, so no other of them need be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The fetcher.
    pub fetcher_id: i64,
    /// The run of the row that represents the group.
    pub run_started: i64,
    /// Whether a job of the attribute path is in flight, whenever it was started.
    pub held: bool,
    /// From the representing row.
    pub last_started: Option<i64>,
    /// From the representing row.
    pub order_jitter: Option<i64>,
}

impl Place {
    /// Whether a group at this place has this key.
    #[must_use]
    pub fn is_at(&self, key: &GroupKey) -> bool {
        self.fetcher_id == key.fetcher_id
            && self.last_started == key.last_started
            && self.order_jitter == key.order_jitter
    }

    /// The key that the group of `attr_path` at this place is ordered by.
    #[must_use]
    pub fn key(&self, attr_path: &str) -> GroupKey {
        GroupKey {
            last_started: self.last_started,
            order_jitter: self.order_jitter,
            attr_path: attr_path.to_owned(),
            fetcher_id: self.fetcher_id,
        }
    }
}

/// All that is stored about one attribute path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttrState {
    /// Its row of `log`.
    pub log: Option<LogRow>,
    /// Its rows of `queue`, over all fetchers and runs but the deleted ones.
    pub rows: Vec<Row>,
}

/// What a hand-out changed, enough to undo it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    /// The fetcher whose group was handed out.
    pub fetcher_id: i64,
    /// The time of the hand-out.
    pub started: i64,
    /// The runs whose rows it marked as dequeued.
    pub runs: Vec<i64>,
    /// The log row that it replaced.
    pub previous: Option<LogRow>,
}

/// Whether a hand-out can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undo {
    /// Its start is the last one and nobody reported its end.
    Possible,
    /// It was finished, or started again: it reached somebody.
    TooLate,
}

impl AttrState {
    /// The row that stands for the group of `fetcher_id`: the one of the newest run (CONTRACT QO01).
    #[must_use]
    pub fn representative(&self, fetcher_id: i64) -> Option<&Row> {
        self.rows.iter().filter(|row| row.fetcher_id == fetcher_id).max_by_key(|row| row.run_started)
    }

    /// The places of the ready groups, at most one a fetcher.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        let held = self.log.is_some_and(|log| log.finished.is_none());
        let mut places: Vec<Place> = Vec::new();
        for row in &self.rows {
            let represents = self
                .representative(row.fetcher_id)
                .is_some_and(|first| first.run_started == row.run_started && !row.is_dequeued);
            if represents {
                places.push(Place {
                    fetcher_id: row.fetcher_id,
                    run_started: row.run_started,
                    held,
                    last_started: row.last_started,
                    order_jitter: row.order_jitter,
                });
            }
        }
        places
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

    /// Notes the end of a job; whether there was a log row to note it in (CONTRACT QO06).
    pub fn finish(&mut self, exit_code: i64, now: i64) -> bool {
        match &mut self.log {
            Some(log) => {
                log.finished = Some(now);
                log.exit_code = Some(exit_code);
                true
            }
            None => false,
        }
    }

    /// Makes everything as it was before `dispatch`, if nothing happened since.
    pub fn undo(&mut self, dispatch: &Dispatch) -> Undo {
        if !self.log.is_some_and(|log| log.started == dispatch.started && log.finished.is_none()) {
            return Undo::TooLate;
        }
        self.put_back(dispatch);
        self.set_log(dispatch.previous);
        Undo::Possible
    }

    /// Makes the rows that `dispatch` used up ready again and leaves the log alone; for a hold that ran out.
    pub fn put_back(&mut self, dispatch: &Dispatch) {
        for row in &mut self.rows {
            if row.fetcher_id == dispatch.fetcher_id && dispatch.runs.contains(&row.run_started) {
                row.is_dequeued = false;
            }
        }
    }

    /// Uses up every row without a hand-out, for a path that nobody could report done.
    pub fn withdraw(&mut self) {
        for row in &mut self.rows {
            row.is_dequeued = true;
        }
    }

    /// Makes every row ready and lifts a hold; returns how many rows changed and whether a hold was lifted.
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

    /// Makes `last_started` of all rows what the log says, which the order relies on.
    pub fn heal(&mut self) {
        if let Some(log) = self.log {
            self.set_log(Some(log));
        }
    }

    /// Whether a row's `last_started` is not what the log says.
    #[must_use]
    pub fn is_out_of_step(&self) -> bool {
        self.log.is_some_and(|log| self.rows.iter().any(|row| row.last_started != Some(log.started)))
    }

    fn set_log(&mut self, log: Option<LogRow>) {
        self.log = log;
        for row in &mut self.rows {
            row.last_started = log.map(|log| log.started);
        }
    }
}
