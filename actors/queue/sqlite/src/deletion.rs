//! Deletes the rows of a run in slices. The mark has hidden the run already. The slices free its
//! space and make older rows that it shadowed available.

use super::attr;
use super::removal::Removal;
use super::sibling::{newest_sibling, sibling_statement};
use super::view::View;
use orchestrator_queue_rules::storage::{Deletion, GroupPosition, Section};
use rusqlite::{Connection, params};

/// Numbers of groups and rows of a step.
const GROUPS: u32 = 640;
const ROWS: u32 = 512;

pub(super) fn slice(
    conn: &Connection,
    view: &mut View,
    may_continue: &dyn Fn() -> bool,
) -> rusqlite::Result<Deletion> {
    let Some(run) = view.runs.next_deleted(view.urgent) else {
        view.urgent = None;
        return Ok(Deletion::Idle);
    };
    if view.removal.run != run {
        view.removal = Removal::of(run);
    }
    loop {
        let groups = remove_groups(conn, run)?;
        if !groups.is_empty() {
            view.removal.add(groups);
        } else if remove_rows(conn, view, run)? == 0 {
            view.removal = Removal::default();
            return view.runs.remove(conn, run.0, run.1).map(Deletion::Finished);
        }
        if !may_continue() {
            return Ok(Deletion::More);
        }
    }
}

/// Removes the next rows: those of the list, then the others (dequeued ones have no group) in the order of
/// the primary key.
fn remove_rows(
    conn: &Connection,
    view: &mut View,
    (fetcher_id, run_started): (i64, i64),
) -> rusqlite::Result<usize> {
    let mut attr_paths = view.removal.take(ROWS as usize);
    if attr_paths.is_empty() {
        let mut others = conn.prepare_cached(
            "SELECT attr_path FROM queue WHERE fetcher_run_started = ?1 AND fetcher_id = ?2
             ORDER BY attr_path LIMIT ?3",
        )?;
        let others = others.query_map(params![run_started, fetcher_id, ROWS], |row| row.get(0))?;
        attr_paths = others.collect::<Result<_, _>>()?;
    }
    let mut removal = conn.prepare_cached(
        "DELETE FROM queue WHERE fetcher_run_started = ?1 AND fetcher_id = ?2 AND attr_path = ?3",
    )?;
    let live = view.runs.live_runs(fetcher_id);
    let mut sibling = sibling_statement(conn)?;
    for attr_path in &attr_paths {
        removal.execute(params![run_started, fetcher_id, attr_path])?;
        let Some(other) = newest_sibling(&mut sibling, fetcher_id, run_started, &live, attr_path)? else {
            continue;
        };
        // The deleted run did not shadow the row of a newer one.
        if !other.is_dequeued && other.run_started < run_started {
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
    Ok(attr_paths.len())
}

/// Removes the next groups of the deleted run, a range of the primary key in one section. Returns their
/// paths.
fn remove_groups(conn: &Connection, (fetcher_id, run_started): (i64, i64)) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare_cached(
        "SELECT attr_path, class, is_held, started_key, jitter_key FROM orchestrator_ready
         WHERE fetcher_id = ?1 AND run_started = ?2
         ORDER BY class, is_held, started_key, jitter_key, attr_path LIMIT ?3",
    )?;
    let mut rows = statement.query(params![fetcher_id, run_started, GROUPS])?;
    let (mut attr_paths, mut first, mut last) = (Vec::new(), None, [0_i64; 2]);
    while let Some(row) = rows.next()? {
        let section: [i64; 2] = [row.get(1)?, row.get(2)?];
        if *first.get_or_insert(section) != section {
            break;
        }
        attr_paths.push(row.get(0)?);
        last = [row.get(3)?, row.get(4)?];
    }
    if let (Some([class, is_held]), Some(attr_path)) = (first, attr_paths.last()) {
        let [started_key, jitter_key] = last;
        conn.prepare_cached(
            "DELETE FROM orchestrator_ready WHERE fetcher_id = ?1 AND run_started = ?2 AND class = ?3 AND is_held = ?4
                 AND (started_key, jitter_key, attr_path) <= (?5, ?6, ?7)",
        )?
        .execute(params![fetcher_id, run_started, class, is_held, started_key, jitter_key, attr_path])?;
    }
    Ok(attr_paths)
}
