//! Reads and writes the state of one attribute path.

use super::groups;
use super::view::View;
use orchestrator_queue_rules::storage::{AttrState, GroupKey, GroupPosition, LogRow, Row, Section};
use orchestrator_text::sanitize;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

/// Reads the log row and the queue rows of an attribute path, except rows of deleted runs.
pub(super) fn load(conn: &Connection, view: &View, attr_path: &str) -> rusqlite::Result<AttrState> {
    let mut statement = conn.prepare_cached(
        "SELECT rowid, fetcher_id, fetcher_run_started, is_dequeued, last_started, order_jitter
         FROM queue WHERE attr_path = ?1",
    )?;
    let mut found = statement.query([attr_path])?;
    let mut rows = Vec::with_capacity(2);
    while let Some(row) = found.next()? {
        let row = Row {
            rowid: row.get(0)?,
            fetcher_id: row.get(1)?,
            run_started: row.get(2)?,
            class: 0,
            is_dequeued: row.get::<_, i64>(3)? != 0,
            last_started: row.get(4)?,
            order_jitter: row.get(5)?,
        };
        if !view.runs.is_deleted(row.fetcher_id, row.run_started) {
            rows.push(Row { class: view.class(row.fetcher_id, attr_path), ..row });
        }
    }
    Ok(AttrState { log: load_log(conn, attr_path)?, rows })
}

/// Statement of [`load_log_by`], to be reused for many rows.
pub(super) fn log_statement(conn: &Connection) -> rusqlite::Result<CachedStatement<'_>> {
    conn.prepare_cached("SELECT started, finished, exit_code FROM log WHERE attr_path = ?1")
}

pub(super) fn load_log(conn: &Connection, attr_path: &str) -> rusqlite::Result<Option<LogRow>> {
    load_log_by(&mut log_statement(conn)?, attr_path)
}

/// Runs [`load_log`] with a prepared [`log_statement`].
pub(super) fn load_log_by(
    statement: &mut CachedStatement<'_>,
    attr_path: &str,
) -> rusqlite::Result<Option<LogRow>> {
    statement
        .query_row([attr_path], |row| {
            Ok(LogRow { started: row.get(0)?, finished: row.get(1)?, exit_code: row.get(2)? })
        })
        .optional()
}

/// Writes the differences between `before` and `after`, which have the same rows: log row, queue
/// rows and positions of groups.
pub(super) fn save(
    conn: &Connection,
    view: &mut View,
    attr_path: &str,
    before: &AttrState,
    after: &AttrState,
) -> rusqlite::Result<()> {
    save_log(conn, attr_path, before.log, after.log)?;
    if before.log != after.log {
        // A hand-out is recorded afterwards.
        view.limited.end(conn, attr_path)?;
    }
    for (old, new) in before.rows.iter().zip(&after.rows) {
        if old != new {
            conn.prepare_cached("UPDATE queue SET is_dequeued = ?2, last_started = ?3 WHERE rowid = ?1")?
                .execute(params![new.rowid, new.is_dequeued, new.last_started])?;
        }
    }
    // A group that was shadowed by a deleted run may have no entry yet. That is harmless: the deletion
    // of the newer row inserts it.
    let (old, new) = (before.positions(), after.positions());
    move_groups(conn, view, attr_path, &old, &new)
}

/// Moves the groups of an attribute path from their old positions to the new ones.
pub(super) fn move_groups(
    conn: &Connection,
    view: &mut View,
    attr_path: &str,
    old: &[GroupPosition],
    new: &[GroupPosition],
) -> rusqlite::Result<()> {
    for position in old.iter().filter(|position| !new.contains(position)) {
        remove_group(conn, view, attr_path, position)?;
    }
    for position in new.iter().filter(|position| !old.contains(position)) {
        insert_group(conn, view, attr_path, position)?;
    }
    Ok(())
}

/// Adds a group unless it exists.
pub(super) fn insert_group(
    conn: &Connection,
    view: &mut View,
    attr_path: &str,
    position: &GroupPosition,
) -> rusqlite::Result<()> {
    remove_unlimited(conn, view, attr_path, position)?;
    groups::insert(conn, position, attr_path)?;
    view.heads.inserted(position, attr_path);
    Ok(())
}

/// Removes a group if it exists.
pub(super) fn remove_group(
    conn: &Connection,
    view: &mut View,
    attr_path: &str,
    position: &GroupPosition,
) -> rusqlite::Result<()> {
    groups::remove(conn, position, attr_path)?;
    view.heads.removed(position, attr_path);
    remove_unlimited(conn, view, attr_path, position)
}

/// Removes a limited group from the class of unlimited groups, in which the triggers of other
/// connections put all groups.
fn remove_unlimited(
    conn: &Connection,
    view: &mut View,
    attr_path: &str,
    position: &GroupPosition,
) -> rusqlite::Result<()> {
    if position.section.class > 0 {
        let unlimited = GroupPosition { section: Section { class: 0, ..position.section }, ..*position };
        groups::remove(conn, &unlimited, attr_path)?;
        view.heads.removed(&unlimited, attr_path);
    }
    Ok(())
}

fn save_log(
    conn: &Connection,
    attr_path: &str,
    old: Option<LogRow>,
    new: Option<LogRow>,
) -> rusqlite::Result<()> {
    match (old, new) {
        (old, new) if old == new => {}
        (None, Some(log)) => {
            conn.prepare_cached(
                "INSERT INTO log (attr_path, started, finished, exit_code) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![attr_path, log.started, log.finished, log.exit_code])?;
        }
        (_, Some(log)) => {
            conn.prepare_cached(
                "UPDATE log SET started = ?2, finished = ?3, exit_code = ?4 WHERE attr_path = ?1",
            )?
            .execute(params![attr_path, log.started, log.finished, log.exit_code])?;
        }
        (_, None) => {
            conn.prepare_cached("DELETE FROM log WHERE attr_path = ?1")?.execute([attr_path])?;
        }
    }
    Ok(())
}

/// Repairs the index entries of an attribute path whose group was found at a wrong position: `key`
/// in `section`.
pub(super) fn repair(
    conn: &Connection,
    view: &mut View,
    section: Section,
    key: &GroupKey,
    mut state: AttrState,
) -> rusqlite::Result<()> {
    let wrong = GroupPosition { section, last_started: key.last_started, order_jitter: key.order_jitter };
    let before = state.clone();
    state.sync_last_started();
    save(conn, view, &key.attr_path, &before, &state)?;
    let right = state.positions();
    // Insert all of `right`, because the tables may lack entries that they should have.
    move_groups(conn, view, &key.attr_path, &[wrong], &[])?;
    move_groups(conn, view, &key.attr_path, &[], &right)
}

/// Marks the rows of an attribute path that no `DONE` can report as dequeued.
pub(super) fn mark_dequeued(
    conn: &Connection,
    view: &mut View,
    attr_path: &str,
    state: &AttrState,
) -> rusqlite::Result<()> {
    tracing::warn!(
        attr_path = sanitize(attr_path),
        bytes = attr_path.len(),
        "skipped a row of the database: its attribute path is too long for a DONE line"
    );
    let mut after = state.clone();
    after.mark_dequeued();
    save(conn, view, attr_path, state, &after)
}
