//! Rows of other runs in a group.

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

/// A row of another run in the same group.
pub(super) struct Sibling {
    pub(super) run_started: i64,
    pub(super) is_dequeued: bool,
    pub(super) last_started: Option<i64>,
    pub(super) order_jitter: Option<i64>,
}

pub(super) fn sibling_statement(conn: &Connection) -> rusqlite::Result<CachedStatement<'_>> {
    conn.prepare_cached(
        "SELECT is_dequeued, last_started, order_jitter FROM queue
         WHERE fetcher_run_started = ?1 AND fetcher_id = ?2 AND attr_path = ?3",
    )
}

/// Searches the `live` runs other than `except`. A fetcher has few runs, so one seek per run is cheapest.
pub(super) fn newest_sibling(
    statement: &mut CachedStatement<'_>,
    fetcher_id: i64,
    except: i64,
    live: &[i64],
    attr_path: &str,
) -> rusqlite::Result<Option<Sibling>> {
    for &run_started in live.iter().filter(|run| **run != except) {
        let found = statement
            .query_row(params![run_started, fetcher_id, attr_path], |row| {
                Ok(Sibling {
                    run_started,
                    is_dequeued: row.get::<_, i64>(0)? != 0,
                    last_started: row.get(1)?,
                    order_jitter: row.get(2)?,
                })
            })
            .optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
