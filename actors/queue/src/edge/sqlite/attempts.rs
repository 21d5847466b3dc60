//! Attempts: the newest hand-outs with their ends, up to a limit in rows.
//!
//! The key begins with the start and the attribute path of the log row, so that a DONE finds its
//! attempt without an index of its own. Questions scan the table, whose size is limited.

use crate::storage::HandoutId;
use rusqlite::{Connection, params};

/// Maximum number of rows that one insertion removes.
const TRIMMED_MAX: u64 = 256;

/// An attempt to be stored.
pub(super) struct NewAttempt<'a> {
    pub(super) started: i64,
    pub(super) attr_path: &'a str,
    /// The hand-out; 0 if another program handed the job out.
    pub(super) handout: HandoutId,
    /// Time and exit code of the DONE.
    pub(super) end: Option<(i64, Option<i64>)>,
    pub(super) fetcher: Option<&'a str>,
    pub(super) connection: Option<&'a str>,
}

/// Limit of the table, and the number of its rows, which is counted once and updated afterwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempts {
    limit: u64,
    stored: Option<u64>,
}

impl Attempts {
    /// Returns the attempts of a table that keeps `limit` rows; 0 keeps none.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, stored: None }
    }

    /// Stores an attempt and removes the oldest ones beyond the limit.
    pub(super) fn add(&mut self, conn: &Connection, attempt: &NewAttempt<'_>) -> rusqlite::Result<()> {
        if self.limit == 0 {
            return Ok(());
        }
        let stored = match self.stored {
            Some(stored) => stored,
            None => count(conn)?,
        };
        let removed = match (stored + 1).checked_sub(self.limit) {
            // Some more than necessary, since one range is cheaper to remove than single rows.
            Some(excess) if excess > 0 => {
                remove_oldest(conn, excess.max(self.limit / 100).clamp(1, TRIMMED_MAX))?
            }
            _ => 0,
        };
        conn.prepare_cached(
            "INSERT INTO orchestrator_attempt (started, attr_path, handout_id, finished, exit_code, fetcher, connection)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            attempt.started,
            attempt.attr_path,
            attempt.handout.0,
            attempt.end.map(|end| end.0),
            attempt.end.and_then(|end| end.1),
            attempt.fetcher,
            attempt.connection,
        ])?;
        self.stored = Some(stored + 1 - removed);
        Ok(())
    }

    /// Records the end of the attempt that began at `started`. If it is not stored, because another
    /// program handed the job out, it is added.
    pub(super) fn end(
        &mut self,
        conn: &Connection,
        attr_path: &str,
        started: i64,
        end: (i64, Option<i64>),
    ) -> rusqlite::Result<()> {
        if self.limit == 0 {
            return Ok(());
        }
        let known = conn
            .prepare_cached(
                "UPDATE orchestrator_attempt SET finished = ?3, exit_code = ?4
                 WHERE started = ?1 AND attr_path = ?2 AND handout_id = (
                     SELECT max(handout_id) FROM orchestrator_attempt WHERE started = ?1 AND attr_path = ?2)",
            )?
            .execute(params![started, attr_path, end.0, end.1])?;
        if known > 0 {
            return Ok(());
        }
        let handout = HandoutId(0);
        let attempt =
            NewAttempt { started, attr_path, handout, end: Some(end), fetcher: None, connection: None };
        self.add(conn, &attempt)
    }

    /// Removes the attempt of a hand-out that is undone.
    pub(super) fn remove(
        &mut self,
        conn: &Connection,
        attr_path: &str,
        started: i64,
        handout: HandoutId,
    ) -> rusqlite::Result<()> {
        let removed = conn
            .prepare_cached(
                "DELETE FROM orchestrator_attempt WHERE started = ?1 AND attr_path = ?2 AND handout_id = ?3",
            )?
            .execute(params![started, attr_path, handout.0])?;
        self.stored = self.stored.map(|stored| stored.saturating_sub(removed as u64));
        Ok(())
    }
}

/// Removes all attempts, for a limit of 0.
pub(super) fn clear(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute("DELETE FROM orchestrator_attempt", [])?;
    Ok(())
}

fn count(conn: &Connection) -> rusqlite::Result<u64> {
    conn.query_row("SELECT count(*) FROM orchestrator_attempt", [], |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
}

fn remove_oldest(conn: &Connection, rows: u64) -> rusqlite::Result<u64> {
    conn.prepare_cached(
        "DELETE FROM orchestrator_attempt WHERE (started, attr_path, handout_id) IN (
             SELECT started, attr_path, handout_id FROM orchestrator_attempt
             ORDER BY started, attr_path, handout_id LIMIT ?1)",
    )?
    .execute([i64::try_from(rows).unwrap_or(i64::MAX)])
    .map(|removed| removed as u64)
}
