//! Makes jobs available again for operators: those of one attribute path, or of a filter in slices.

use super::view::View;
use super::{attr, handout, offers};
use orchestrator_queue_rules::storage::{JobFilter, LogRow, Requeued, RequeuedSlice};
use rusqlite::{Connection, params};
use std::time::{Duration, Instant};

/// Number of log rows that are read at once. A path has up to 64 KiB.
const STRIDE: u32 = 64;

/// Makes all rows of `attr_path` eligible and ends its hold.
pub(super) fn path(
    conn: &Connection,
    view: &mut View,
    attr_path: &str,
    now: i64,
) -> rusqlite::Result<Requeued> {
    let before = attr::load(conn, view, attr_path)?;
    let mut after = before.clone();
    let (rows, was_in_flight) = after.requeue(now);
    attr::save(conn, view, attr_path, &before, &after)?;
    handout::forget_attr(conn, view, attr_path)?;
    offers::undone(conn, attr_path)?;
    Ok(Requeued { rows, was_in_flight })
}

/// Requeues the jobs of `filter` at or behind the path `from`, until `budget` is used. Reads the log in the
/// order of its primary key.
pub(super) fn slice(
    conn: &Connection,
    view: &mut View,
    filter: &JobFilter,
    from: &str,
    (budget, now): (Duration, i64),
) -> rusqlite::Result<RequeuedSlice> {
    let deadline = Instant::now() + budget;
    let (mut from, mut jobs) = (from.to_owned(), 0);
    loop {
        let rows = log_rows(conn, &from)?;
        if rows.is_empty() {
            return Ok(RequeuedSlice { jobs, next: None });
        }
        for (attr_path, log) in rows {
            if filter.selects(&attr_path, &log) {
                let Requeued { rows, was_in_flight } = path(conn, view, &attr_path, now)?;
                jobs += u64::from(rows > 0 || was_in_flight);
            }
            // The next possible text in the order of bytes.
            from = attr_path + "\0";
            if Instant::now() >= deadline {
                return Ok(RequeuedSlice { jobs, next: Some(from) });
            }
        }
    }
}

fn log_rows(conn: &Connection, from: &str) -> rusqlite::Result<Vec<(String, LogRow)>> {
    conn.prepare_cached(
        "SELECT attr_path, started, finished, exit_code FROM log WHERE attr_path >= ?1 ORDER BY attr_path LIMIT ?2",
    )?
    .query_map(params![from, STRIDE], |row| {
        Ok((row.get(0)?, LogRow { started: row.get(1)?, finished: row.get(2)?, exit_code: row.get(3)? }))
    })?
    .collect()
}
