//! Stores lines of fetcher files.

use super::sibling::{newest_sibling, sibling_statement};
use super::view::View;
use super::{attr, groups, staging};
use orchestrator_queue_rules::storage::{Entry, GroupPosition, Section};
use rusqlite::{Connection, params};
use std::time::Instant;

/// Number of entries between two checks of the deadline.
const STRIDE: usize = 32;

const INSERT: &str =
    "INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, last_started, order_jitter)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
const REPLACE: &str =
    "UPDATE queue SET payload = ?4 WHERE fetcher_run_started = ?2 AND fetcher_id = ?1 AND attr_path = ?3";

/// Stores entries until `deadline`, at least some, and returns their number. `live` are the
/// fetcher's runs including `run_started`, newest first.
pub(super) fn enqueue(
    conn: &Connection,
    view: &mut View,
    fetcher_id: i64,
    run_started: i64,
    live: &[i64],
    entries: &[Entry],
    deadline: Option<Instant>,
) -> rusqlite::Result<usize> {
    let mut insert = conn.prepare_cached(INSERT)?;
    let mut replace = conn.prepare_cached(REPLACE)?;
    let mut sibling = sibling_statement(conn)?;
    let mut logged = attr::log_statement(conn)?;
    let mut group = groups::insert_statement(conn)?;
    for (taken, entry) in entries.iter().enumerate() {
        if taken > 0 && taken % STRIDE == 0 && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(taken);
        }
        let attr_path = entry.attr_path.as_str();
        let log = attr::load_log_by(&mut logged, attr_path)?;
        let held = log.is_some_and(|log| log.finished.is_none());
        let section = Section { fetcher_id, run_started, class: view.class(fetcher_id, attr_path), held };
        let position = GroupPosition {
            section,
            last_started: log.map(|log| log.started),
            order_jitter: Some(i64::from(entry.order_jitter)),
        };
        let new = match entry.staged {
            Some(id) => staging::execute(conn, INSERT, &position, attr_path, id)?,
            None => insert.execute(params![
                fetcher_id,
                run_started,
                attr_path,
                entry.payload,
                position.last_started,
                entry.order_jitter
            ])?,
        };
        if new == 0 {
            match entry.staged {
                Some(id) => staging::execute(conn, REPLACE, &position, attr_path, id)?,
                None => replace.execute(params![fetcher_id, run_started, attr_path, entry.payload])?,
            };
            continue;
        }
        // The new row represents its group unless a newer run has the path. It replaces the group
        // entry of an older run.
        match newest_sibling(&mut sibling, fetcher_id, run_started, live, attr_path)? {
            Some(other) if other.run_started > run_started => continue,
            Some(other) if !other.is_dequeued => {
                let old = GroupPosition {
                    section: Section { run_started: other.run_started, ..section },
                    last_started: other.last_started,
                    order_jitter: other.order_jitter,
                };
                attr::remove_group(conn, view, attr_path, &old)?;
            }
            _ => {}
        }
        groups::insert_by(&mut group, &position, attr_path)?;
        view.heads.inserted(&position, attr_path);
    }
    Ok(entries.len())
}
