//! Storing the lines of fetcher files.

use super::store::View;
use super::{attr, groups, staging};
use crate::storage::{Entry, Place};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use std::time::Instant;

/// Entries between two looks at the clock.
const STRIDE: usize = 32;

/// Stores entries until `deadline`, at least a few, and returns how many. `live` are the fetcher's runs, newest first,
/// `run_started` among them.
pub(super) fn enqueue(
    conn: &Connection,
    view: &mut View,
    fetcher_id: i64,
    run_started: i64,
    live: &[i64],
    entries: &[Entry],
    deadline: Option<Instant>,
) -> rusqlite::Result<usize> {
    let mut insert = conn.prepare_cached(
        "INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, last_started, order_jitter)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
    )?;
    let mut replace = conn.prepare_cached(
        "UPDATE queue SET payload = ?4 WHERE fetcher_run_started = ?2 AND fetcher_id = ?1 AND attr_path = ?3",
    )?;
    let mut sibling = sibling_statement(conn)?;
    for (taken, entry) in entries.iter().enumerate() {
        if taken > 0 && taken % STRIDE == 0 && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(taken);
        }
        let attr_path = entry.attr_path.as_str();
        let log = attr::load_log(conn, attr_path)?;
        let place = Place {
            fetcher_id,
            run_started,
            held: log.is_some_and(|log| log.finished.is_none()),
            last_started: log.map(|log| log.started),
            order_jitter: Some(i64::from(entry.order_jitter)),
        };
        let new = match entry.staged {
            Some(id) => staging::store(conn, &place, attr_path, id)?,
            None => insert.execute(params![
                fetcher_id,
                run_started,
                attr_path,
                entry.payload,
                place.last_started,
                entry.order_jitter
            ])?,
        };
        if new == 0 {
            if entry.staged.is_none() {
                replace.execute(params![fetcher_id, run_started, attr_path, entry.payload])?;
            }
            continue;
        }
        // The new row represents its group unless a newer run has the path too; then it takes over from an older one.
        match newest_sibling(&mut sibling, fetcher_id, run_started, live, attr_path)? {
            Some(other) if other.run_started > run_started => continue,
            Some(other) if !other.is_dequeued => {
                let old = Place {
                    run_started: other.run_started,
                    last_started: other.last_started,
                    order_jitter: other.order_jitter,
                    ..place
                };
                groups::remove(conn, &old, attr_path)?;
                view.heads.removed(&old, attr_path);
            }
            _ => {}
        }
        groups::insert(conn, &place, attr_path)?;
        view.heads.inserted(&place, attr_path);
    }
    Ok(entries.len())
}

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

/// The row of the newest of the `live` runs, other than `but`, that has the path. A fetcher has few runs at a time and
/// mostly one, so asking run by run is the cheapest.
pub(super) fn newest_sibling(
    statement: &mut CachedStatement<'_>,
    fetcher_id: i64,
    but: i64,
    live: &[i64],
    attr_path: &str,
) -> rusqlite::Result<Option<Sibling>> {
    for &run_started in live.iter().filter(|run| **run != but) {
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
