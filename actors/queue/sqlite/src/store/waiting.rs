//! Jobs that wait, read without the write lock.

use super::SqliteStore;
use crate::{error::storage_error, groups, view::View};
use orchestrator_queue_rules::{
    storage::{GroupKey, HeldJobs, Section, StorageError, Waiting, is_expired},
    unserved::{LogTimes, Unserved},
};
use orchestrator_queue_store::LOG_TIMES;
use rusqlite::Connection;

impl SqliteStore {
    /// Costs a few seeks, or the count of up to a thousand held jobs. No transaction may be open.
    ///
    /// # Errors
    /// Of SQLite.
    pub fn waiting(&mut self, now: i64) -> Result<Waiting, StorageError> {
        if !self.conn.is_autocommit() {
            let error = "a transaction is open: commit it first";
            return Err(StorageError::backend(&self.path, "reading the waiting jobs")(error));
        }
        let found = self.read_waiting(now);
        let ended = self.conn.execute_batch("COMMIT");
        let found = found.and_then(|found| ended.map(|()| found));
        if found.is_err() {
            self.view = None;
            if !self.conn.is_autocommit() {
                // The next transaction reports what is wrong.
                let _ = self.conn.execute_batch("ROLLBACK");
            }
        }
        found.map_err(|error| storage_error(&self.path, "reading the waiting jobs", error))
    }

    fn read_waiting(&mut self, now: i64) -> rusqlite::Result<Waiting> {
        self.conn.prepare_cached("BEGIN")?.execute([])?;
        self.refresh_view()?;
        let Some(View { heads, limited, .. }) = &mut self.view else { return Ok(Waiting::Nothing) };
        let hold = self.options.hold_secs;
        let is_over = |key: &GroupKey| key.last_started.is_none_or(|started| is_expired(started, now, hold));
        let [free, held] = heads.first(&self.conn, |class| limited.is_full(class, now, hold))?;
        if free.is_some() || held.is_some_and(|(key, _)| is_over(&key)) {
            return Ok(Waiting::Ready);
        }
        let [free, held] = heads.first(&self.conn, |_| false)?;
        let (held, limited_head) = match held {
            Some((key, section)) if is_over(&key) => (None, free.or(Some((key, section)))),
            held => (held, free),
        };
        if let Some((key, section)) = limited_head {
            let limit = limited.limits.limit(section.class).cloned();
            // Only limited classes are full.
            return Ok(
                limit.map_or(Waiting::Ready, |limit| Waiting::Limited { attr_path: key.attr_path, limit })
            );
        }
        let Some((key, _)) = held else { return Ok(Waiting::Nothing) };
        let started = key.last_started.unwrap_or(now);
        Ok(Waiting::Held(HeldJobs {
            until: utc(&self.conn, started.saturating_add(hold))?,
            started: utc(&self.conn, started)?,
            jobs: count_groups(&self.conn, heads.held())?,
            attr_path: key.attr_path,
        }))
    }
}

impl SqliteStore {
    /// None if somebody works, or no job could be handed out. Reads the whole log.
    pub(crate) fn unserved(
        &mut self,
        now: i64,
        last_request: Option<i64>,
    ) -> Result<Option<Unserved>, StorageError> {
        let found = self.read_unserved(now, last_request);
        found.map_err(|error| storage_error(&self.path, "reading the times of the log", error))
    }

    fn read_unserved(&self, now: i64, last_request: Option<i64>) -> rusqlite::Result<Option<Unserved>> {
        let Some(View { heads, limited, .. }) = &self.view else { return Ok(None) };
        let hold = self.options.hold_secs;
        let times = self.conn.prepare_cached(LOG_TIMES)?.query_row([LogTimes::day_before(now)], |row| {
            Ok(LogTimes {
                in_flight: row.get::<_, i64>(0)?.unsigned_abs(),
                newest_in_flight: row.get(1)?,
                longest: row.get(2)?,
                last_handout: row.get(3)?,
                last_done: row.get(4)?,
            })
        })?;
        if times.shows_work(now, hold) {
            return Ok(None);
        }
        let (full, open): (Vec<_>, Vec<_>) =
            heads.sections().partition(|section| limited.is_full(section.class, now, hold));
        let free = count_groups(&self.conn, open.into_iter())?;
        let jobs = (free + count_groups(&self.conn, full.into_iter())?).min(HeldJobs::COUNTED_MAX);
        Ok(Some(Unserved { jobs, free, in_flight: times.in_flight, last_request }))
    }
}

/// Formats a unix time; SQLite has a calendar.
fn utc(conn: &Connection, unix_time: i64) -> rusqlite::Result<String> {
    let sql = "SELECT ifnull(strftime('%Y-%m-%dT%H:%M:%SZ', ?1, 'unixepoch'), ?1 || ' s after 1970')";
    conn.prepare_cached(sql)?.query_row([unix_time], |row| row.get(0))
}

/// Counts the groups of `sections`, up to [`HeldJobs::COUNTED_MAX`].
fn count_groups(conn: &Connection, sections: impl Iterator<Item = Section>) -> rusqlite::Result<u64> {
    let mut counted = 0;
    for section in sections {
        counted += groups::count(conn, section, HeldJobs::COUNTED_MAX - counted)?;
    }
    Ok(counted)
}
