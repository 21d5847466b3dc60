//! Deletes the rows of a run in slices. The mark has hidden the run already. The slices free its
//! space and make older rows that it shadowed available.

use super::attr;
use super::sibling::{newest_sibling, sibling_statement};
use super::view::View;
use crate::storage::{Deletion, GroupPosition, Section};
use rusqlite::{Connection, params};
use std::time::{Duration, Instant};

/// Number of rows between two checks of the deadline.
const STRIDE: u32 = 32;

pub(super) fn slice(conn: &Connection, view: &mut View, budget: Duration) -> rusqlite::Result<Deletion> {
    let Some((fetcher_id, run_started)) = view.runs.next_deleted(view.urgent) else {
        view.urgent = None;
        return Ok(Deletion::Idle);
    };
    let deadline = Instant::now() + budget;
    loop {
        let removed =
            remove_rows(conn, view, fetcher_id, run_started)? + remove_groups(conn, fetcher_id, run_started)?;
        if removed == 0 {
            return view.runs.remove(conn, fetcher_id, run_started).map(Deletion::Finished);
        }
        if Instant::now() >= deadline {
            return Ok(Deletion::More);
        }
    }
}

fn remove_rows(
    conn: &Connection,
    view: &mut View,
    fetcher_id: i64,
    run_started: i64,
) -> rusqlite::Result<usize> {
    let live = view.runs.live_runs(fetcher_id);
    let mut statement = conn.prepare_cached(
        "SELECT rowid, attr_path FROM queue WHERE fetcher_run_started = ?1 AND fetcher_id = ?2
         ORDER BY attr_path LIMIT ?3",
    )?;
    let rows: Vec<(i64, String)> = statement
        .query_map(params![run_started, fetcher_id, STRIDE], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut delete = conn.prepare_cached("DELETE FROM queue WHERE rowid = ?1")?;
    let mut sibling = sibling_statement(conn)?;
    for (rowid, attr_path) in &rows {
        delete.execute([rowid])?;
        let Some(other) = newest_sibling(&mut sibling, fetcher_id, run_started, &live, attr_path)? else {
            continue;
        };
        if !other.is_dequeued {
            let section = Section {
                fetcher_id,
                run_started: other.run_started,
                class: view.class(fetcher_id, attr_path),
                held: attr::load_log(conn, attr_path)?.is_some_and(|log| log.finished.is_none()),
            };
            let (last_started, order_jitter) = (other.last_started, other.order_jitter);
            let position = GroupPosition { section, last_started, order_jitter };
            attr::insert_group(conn, view, attr_path, &position)?;
        }
    }
    Ok(rows.len())
}

/// Removes the deleted run's groups: one range of the table, which is cheaper than row by row.
fn remove_groups(conn: &Connection, fetcher_id: i64, run_started: i64) -> rusqlite::Result<usize> {
    conn.prepare_cached(
        "DELETE FROM orchestrator_group WHERE (fetcher_id, run_started, held, started_key, jitter_key, attr_path) IN (
             SELECT fetcher_id, run_started, held, started_key, jitter_key, attr_path FROM orchestrator_group
             WHERE fetcher_id = ?1 AND run_started = ?2 LIMIT ?3)",
    )?
    .execute(params![fetcher_id, run_started, STRIDE])
}
