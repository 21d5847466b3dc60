//! Attempts: the newest hand-outs, up to a limit in rows.
//!
//! The end of the last attempt of a path is in its log row. The row of a later attempt keeps the log row that
//! it replaces. So a DONE writes nothing here, and rows are only appended: a commit of many hand-outs changes
//! few pages.

use orchestrator_queue_rules::storage::{HandoutId, LogRow};
use rusqlite::{Connection, params};

/// Maximum number of rows that one insertion removes.
pub(super) const TRIMMED_MAX: u64 = 256;

/// Worker that a job is handed out to, and the time.
#[derive(Clone, Copy)]
pub(super) struct Recipient<'a> {
    pub(super) handout: HandoutId,
    pub(super) connection: &'a str,
    pub(super) now: i64,
    /// Size of the payloads that are handed out and not sent, in bytes.
    pub(super) unsent: u64,
}

/// Limit of the table, and the number of its rows, which is counted once and updated afterwards.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempts {
    limit: u64,
    stored: Option<u64>,
}

impl Attempts {
    /// The table keeps `limit` rows; 0 keeps none.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, stored: None }
    }

    /// Stores an attempt and removes the oldest ones beyond the limit. `previous` is the path's log row
    /// before it.
    pub(super) fn add(
        &mut self,
        conn: &Connection,
        to: Recipient<'_>,
        attr_path: &str,
        fetcher: Option<&str>,
        previous: Option<LogRow>,
    ) -> rusqlite::Result<()> {
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
            "INSERT INTO orchestrator_attempt (started, handout_id, attr_path, fetcher, connection,
                 previous_started, previous_finished, previous_exit_code)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            to.now,
            to.handout.0,
            attr_path,
            fetcher,
            to.connection,
            previous.map(|log| log.started),
            previous.and_then(|log| log.finished),
            previous.and_then(|log| log.exit_code),
        ])?;
        self.stored = Some(stored + 1 - removed);
        Ok(())
    }

    /// Removes the attempt of a hand-out that is undone.
    pub(super) fn remove(
        &mut self,
        conn: &Connection,
        started: i64,
        handout: HandoutId,
    ) -> rusqlite::Result<()> {
        let removed = conn
            .prepare_cached("DELETE FROM orchestrator_attempt WHERE started = ?1 AND handout_id = ?2")?
            .execute(params![started, handout.0])?;
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
        "DELETE FROM orchestrator_attempt WHERE (started, handout_id) IN (
             SELECT started, handout_id FROM orchestrator_attempt ORDER BY started, handout_id LIMIT ?1)",
    )?
    .execute([i64::try_from(rows).unwrap_or(i64::MAX)])
    .map(|removed| removed as u64)
}
