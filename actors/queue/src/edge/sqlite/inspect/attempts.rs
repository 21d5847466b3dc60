//! Questions about attempts and jobs in flight.

use super::{ANSWER_BYTES_MAX, Inspector, collect_within};
use crate::storage::{Attempt, FailedAttempts, LogRow, StorageError};
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
                "SELECT l.attr_path, l.started, NULL, NULL, a.fetcher, a.connection, max(a.handout_id)
                 FROM (SELECT attr_path, started FROM log WHERE finished IS NULL ORDER BY started, attr_path LIMIT ?1) AS l
                     LEFT JOIN orchestrator_attempt AS a ON a.started = l.started AND a.attr_path = l.attr_path
                 GROUP BY l.attr_path ORDER BY l.started, l.attr_path",
            )?;
            collect(statement.query([rows(limit)])?)
        })
    }

    /// Returns the latest failed attempts, newest first. Scans the log and the attempts.
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
                "WITH ended AS MATERIALIZED (
                     SELECT attr_path, started, finished, exit_code, 9223372036854775807 AS next FROM log
                     WHERE started >= ?1 AND iif(?2 IS NULL, exit_code <> 0, exit_code = ?2)
                     UNION ALL
                     SELECT attr_path, previous_started, previous_finished, previous_exit_code, handout_id
                     FROM orchestrator_attempt
                     WHERE previous_started >= ?1
                         AND iif(?2 IS NULL, previous_exit_code <> 0, previous_exit_code = ?2)
                     ORDER BY 2 DESC, 1 DESC, 5 DESC LIMIT ?3)
                 SELECT e.attr_path, e.started, e.finished, e.exit_code, a.fetcher, a.connection, max(a.handout_id)
                 FROM ended AS e LEFT JOIN orchestrator_attempt AS a
                     ON a.started = e.started AND a.attr_path = e.attr_path AND a.handout_id < e.next
                 GROUP BY e.attr_path, e.next ORDER BY e.started DESC, e.attr_path DESC, e.next DESC",
            )?;
            let since = which.since.unwrap_or(i64::MIN);
            collect(statement.query(params![since, which.exit_code, rows(which.limit)])?)
        })
    }
}

/// Returns the latest attempts of a path, newest first. The end of an attempt is in the log row, or in the row of the next
/// attempt. If these know another start, another program handed out the job.
pub(super) fn of_attr(conn: &Connection, attr_path: &str, limit: usize) -> rusqlite::Result<Vec<Attempt>> {
    let mut statement = conn.prepare_cached(
        "SELECT attr_path, started, NULL, NULL, fetcher, connection,
             previous_started, previous_finished, previous_exit_code
         FROM orchestrator_attempt WHERE attr_path = ?1
         ORDER BY started DESC, handout_id DESC LIMIT ?2",
    )?;
    let stored = collect_within(
        ANSWER_BYTES_MAX,
        statement.query(params![attr_path, rows(limit)])?,
        |row| Ok((attempt(row)?, log_row(row, 6)?)),
        |(attempt, _)| bytes(attempt),
    )?;
    let mut last = conn
        .prepare_cached("SELECT started, finished, exit_code FROM log WHERE attr_path = ?1")?
        .query_row([attr_path], |row| log_row(row, 0))
        .optional()?
        .flatten();
    let foreign = |log: LogRow| Attempt {
        attr_path: attr_path.to_owned(),
        started: log.started,
        finished: log.finished,
        exit_code: log.exit_code,
        fetcher: None,
        connection: None,
    };
    let mut attempts = Vec::with_capacity(stored.len() + 1);
    for (mut attempt, previous) in stored {
        match last {
            Some(log) if log.started == attempt.started => {
                (attempt.finished, attempt.exit_code) = (log.finished, log.exit_code);
            }
            last => attempts.extend(last.map(foreign)),
        }
        attempts.push(attempt);
        last = previous;
    }
    attempts.extend(last.map(foreign));
    attempts.truncate(limit);
    Ok(attempts)
}

/// Reads a log row from the columns from `first` on; None if its start is null.
fn log_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<LogRow>> {
    let Some(started) = row.get(first)? else { return Ok(None) };
    Ok(Some(LogRow { started, finished: row.get(first + 1)?, exit_code: row.get(first + 2)? }))
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
    collect_within(ANSWER_BYTES_MAX, rows, attempt, bytes)
}

fn bytes(attempt: &Attempt) -> usize {
    attempt.attr_path.len() + attempt.fetcher.as_ref().map_or(0, String::len)
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
