//! Totals for the metrics.

use super::super::attempts::TRIMMED_MAX;
use super::super::open::Options;
use super::answer::single;
use orchestrator_queue_rules::storage::Sample;
use orchestrator_queue_store::questions::{self, WaitingSample};
use rusqlite::Connection;

/// Scans the log, the table of groups and the attempts of a day.
pub(super) fn sample(conn: &Connection, options: &Options, now: i64) -> rusqlite::Result<Sample> {
    let waiting = WaitingSample {
        groups: conn
            .query_row("SELECT count(*) FROM orchestrator_ready", [], |row| row.get(0))
            .map(i64::unsigned_abs)?,
        oldest: conn.query_row(include_str!("../sql/inspect/oldest_waiting.sql"), [], |row| row.get(0))?,
    };
    let (log, attempts) =
        (single(conn, &questions::log_sample(now))?, single(conn, &questions::attempt_sample(now))?);
    let kept = (options.attempts > 0).then(|| options.attempts.saturating_sub(TRIMMED_MAX));
    Ok(questions::sample(now, waiting, &log, &attempts, kept))
}
