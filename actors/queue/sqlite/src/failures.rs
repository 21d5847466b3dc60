//! Failed jobs in the order of their commits, for readers that must miss none (CONTRACT QD17).
//!
//! A row is written in the transaction of its DONE. A reader keeps the number of the last row that it has
//! read.

use orchestrator_queue_rules::storage::FAILURES_KEPT;
use rusqlite::{Connection, params};

/// Number of rows between two removals: until then, more than [`FAILURES_KEPT`] are kept.
const TRIM_EVERY: i64 = 64;

/// Stores a failed job. Numbers grow by one. After each opening they start anew from `first`, unless they are
/// beyond it. So a file that replaced another one does not repeat numbers of the other one.
pub(super) fn add(
    conn: &Connection,
    first: i64,
    attr_path: &str,
    (started, finished): (i64, i64),
    exit_code: i64,
) -> rusqlite::Result<()> {
    let newest: Option<i64> = conn
        .prepare_cached("SELECT max(number) FROM orchestrator_failure")?
        .query_row([], |row| row.get(0))?;
    let number = newest.map_or(first, |newest| first.max(newest.saturating_add(1)));
    conn.prepare_cached(
        "INSERT INTO orchestrator_failure (number, attr_path, started, finished, exit_code) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![number, attr_path, started, finished, exit_code])?;
    if number % TRIM_EVERY == 0 {
        conn.prepare_cached(
            "DELETE FROM orchestrator_failure WHERE number <= (
                 SELECT number FROM orchestrator_failure ORDER BY number DESC LIMIT 1 OFFSET ?1)",
        )?
        .execute([FAILURES_KEPT])?;
    }
    Ok(())
}
