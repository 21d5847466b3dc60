//! Questions about attempts and jobs in flight.

use super::{ANSWER_BYTES_MAX, Inspector, collect_within};
use crate::storage::{Attempt, FailedAttempts, StorageError};
use rusqlite::{Connection, OptionalExtension, Row, Rows, params};
use std::time::Duration;

impl Inspector {
    /// Returns the `limit` jobs in flight that were handed out first. Scans the log.
    ///
    /// # Errors
    /// [`StorageError::Backend`] ("interrupted") after `deadline`, and others of SQLite.
    pub fn in_flight(&mut self, limit: usize, deadline: Duration) -> Result<Vec<Attempt>, StorageError> {
        self.ask("reading the jobs in flight", deadline, |conn, _| {
            let mut statement = conn.prepare_cached(
                "SELECT l.attr_path, l.started, NULL, NULL, a.fetcher, a.connection
                 FROM (SELECT attr_path, started FROM log WHERE finished IS NULL ORDER BY started, attr_path LIMIT ?1) AS l
                     LEFT JOIN orchestrator_attempt AS a ON a.started = l.started AND a.attr_path = l.attr_path
                         AND a.handout_id = (SELECT max(handout_id) FROM orchestrator_attempt AS b
                                             WHERE b.started = l.started AND b.attr_path = l.attr_path)
                 ORDER BY l.started, l.attr_path",
            )?;
            collect(statement.query([rows(limit)])?)
        })
    }

    /// Returns the latest failed attempts, newest first. Scans the attempts since the given time.
    ///
    /// # Errors
    /// [`StorageError::Backend`] ("interrupted") after `deadline`, and others of SQLite.
    pub fn failed(
        &mut self,
        which: FailedAttempts,
        deadline: Duration,
    ) -> Result<Vec<Attempt>, StorageError> {
        self.ask("reading failed attempts", deadline, |conn, _| {
            let mut statement = conn.prepare_cached(
                "SELECT attr_path, started, finished, exit_code, fetcher, connection FROM orchestrator_attempt
                 WHERE started >= ?1 AND iif(?2 IS NULL, exit_code <> 0, exit_code = ?2)
                 ORDER BY started DESC, attr_path DESC, handout_id DESC LIMIT ?3",
            )?;
            let since = which.since.unwrap_or(i64::MIN);
            collect(statement.query(params![since, which.exit_code, rows(which.limit)])?)
        })
    }
}

/// Returns the latest attempts of a path, newest first. The end of one that another program ended
/// is in the log.
pub(super) fn of_attr(conn: &Connection, attr_path: &str, limit: usize) -> rusqlite::Result<Vec<Attempt>> {
    let mut statement = conn.prepare_cached(
        "SELECT a.attr_path, a.started, ifnull(a.finished, l.finished),
             iif(a.finished IS NULL, l.exit_code, a.exit_code), a.fetcher, a.connection
         FROM orchestrator_attempt AS a
             LEFT JOIN log AS l ON l.attr_path = a.attr_path AND l.started = a.started
         WHERE a.attr_path = ?1
         ORDER BY a.started DESC, a.handout_id DESC LIMIT ?2",
    )?;
    collect(statement.query(params![attr_path, rows(limit)])?)
}

/// Returns the job in flight of a path.
pub(super) fn in_flight_of(conn: &Connection, attr_path: &str) -> rusqlite::Result<Option<Attempt>> {
    conn.prepare_cached(
        "SELECT l.attr_path, l.started, NULL, NULL, a.fetcher, a.connection
         FROM log AS l
             LEFT JOIN orchestrator_attempt AS a ON a.started = l.started AND a.attr_path = l.attr_path
         WHERE l.attr_path = ?1 AND l.finished IS NULL
         ORDER BY a.handout_id DESC LIMIT 1",
    )?
    .query_row([attr_path], attempt)
    .optional()
}

fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn collect(rows: Rows<'_>) -> rusqlite::Result<Vec<Attempt>> {
    let size = |attempt: &Attempt| attempt.attr_path.len() + attempt.fetcher.as_ref().map_or(0, String::len);
    collect_within(ANSWER_BYTES_MAX, rows, attempt, size)
}

fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    Ok(Attempt {
        attr_path: row.get(0)?,
        started: row.get(1)?,
        finished: row.get(2)?,
        exit_code: row.get(3)?,
        fetcher: row.get(4)?,
        connection: row.get(5)?,
    })
}
