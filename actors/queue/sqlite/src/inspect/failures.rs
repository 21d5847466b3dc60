//! Failed jobs in the order of their commits.

use super::rows::{ANSWER_BYTES_MAX, collect_within, rows};
use orchestrator_queue_rules::storage::FailedJob;
use rusqlite::{Connection, params};

/// Oldest first, with numbers above `after`. Reads only these jobs, and the attempts of the seconds in which
/// they were handed out.
pub(super) fn failures(conn: &Connection, after: i64, limit: usize) -> rusqlite::Result<Vec<FailedJob>> {
    let mut statement = conn.prepare_cached(include_str!("../sql/inspect/failures.sql"))?;
    let found = statement.query(params![after, rows(limit)])?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(FailedJob {
            number: row.get(0)?,
            attr_path: row.get(1)?,
            started: row.get(2)?,
            finished: row.get(3)?,
            exit_code: row.get(4)?,
            fetcher: row.get(5)?,
        })
    };
    collect_within(ANSWER_BYTES_MAX, found, read, |job| job.attr_path.len())
}
