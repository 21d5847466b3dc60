//! The table of ready groups: one row for each group whose representative row is not dequeued.

use orchestrator_queue_rules::storage::{Class, GroupKey, GroupPosition, Limits, Section};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, params};

/// Value of NULL in keys, which a primary key cannot hold. It sorts before all times and jitters.
pub(super) const NULL_KEY: i64 = i64::MIN;

/// [`NULL_KEY`] as SQL, which has no literal for it.
pub(super) const NULL_KEY_SQL: &str = "(-9223372036854775807 - 1)";

/// Returns all values of the column `held` with these limits.
pub(super) fn columns(limits: &Limits) -> Vec<usize> {
    (0..2 * (limits.0.len() + 1)).collect()
}

/// Returns the value of the column `held` of a section: 0 or 1, and twice the class.
pub(super) fn column(section: Section) -> i64 {
    i64::from(section.class) * 2 + i64::from(section.held)
}

pub(super) fn to_key(value: Option<i64>) -> i64 {
    value.unwrap_or(NULL_KEY)
}

pub(super) fn from_key(key: i64) -> Option<i64> {
    (key != NULL_KEY).then_some(key)
}

/// Statement of [`insert_by`], to be reused for many rows.
pub(super) fn insert_statement(conn: &Connection) -> rusqlite::Result<CachedStatement<'_>> {
    conn.prepare_cached(
        "INSERT INTO orchestrator_group (fetcher_id, run_started, held, started_key, jitter_key, attr_path)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
    )
}

/// Adds a group unless it exists.
pub(super) fn insert(conn: &Connection, position: &GroupPosition, attr_path: &str) -> rusqlite::Result<()> {
    insert_by(&mut insert_statement(conn)?, position, attr_path)
}

/// Runs [`insert`] with a prepared [`insert_statement`].
pub(super) fn insert_by(
    statement: &mut CachedStatement<'_>,
    position: &GroupPosition,
    attr_path: &str,
) -> rusqlite::Result<()> {
    statement.execute(params![
        position.section.fetcher_id,
        position.section.run_started,
        column(position.section),
        to_key(position.last_started),
        to_key(position.order_jitter),
        attr_path
    ])?;
    Ok(())
}

/// Removes a group if it exists.
pub(super) fn remove(conn: &Connection, position: &GroupPosition, attr_path: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "DELETE FROM orchestrator_group
         WHERE fetcher_id = ?1 AND run_started = ?2 AND held = ?3 AND started_key = ?4 AND jitter_key = ?5 AND attr_path = ?6",
    )?
    .execute(params![
        position.section.fetcher_id,
        position.section.run_started,
        column(position.section),
        to_key(position.last_started),
        to_key(position.order_jitter),
        attr_path
    ])?;
    Ok(())
}

pub(super) fn first(conn: &Connection, section: Section) -> rusqlite::Result<Option<GroupKey>> {
    conn.prepare_cached(
        "SELECT started_key, jitter_key, attr_path FROM orchestrator_group
         WHERE fetcher_id = ?1 AND run_started = ?2 AND held = ?3
         ORDER BY started_key, jitter_key, attr_path LIMIT 1",
    )?
    .query_row(params![section.fetcher_id, section.run_started, column(section)], |row| {
        key(row, section.fetcher_id)
    })
    .optional()
}

/// Counts the groups of a section, up to `limit`.
pub(super) fn count(conn: &Connection, section: Section, limit: u64) -> rusqlite::Result<u64> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    conn.prepare_cached(
        "SELECT count(*) FROM (SELECT 1 FROM orchestrator_group
             WHERE fetcher_id = ?1 AND run_started = ?2 AND held = ?3 LIMIT ?4)",
    )?
    .query_row(params![section.fetcher_id, section.run_started, column(section), limit], |row| {
        row.get::<_, i64>(0)
    })
    .map(i64::unsigned_abs)
}

/// Takes three seeks at most for each section. A row comparison such as `(a, b, c) > (?, ?, ?)` would be
/// shorter, but SQLite then scans from the first equal row.
pub(super) fn sections(conn: &Connection) -> rusqlite::Result<Vec<(Section, GroupKey)>> {
    let mut sections = Vec::new();
    let mut next = section_where(conn, ALL, [])?;
    while let Some((last, key)) = next {
        let (fetcher_id, run_started) = (last.fetcher_id, last.run_started);
        sections.push((last, key));
        next = section_where(conn, NEXT_HELD, [fetcher_id, run_started, column(last)])?;
        if next.is_none() {
            next = section_where(conn, NEXT_RUN, [fetcher_id, run_started])?;
        }
        if next.is_none() {
            next = section_where(conn, NEXT_FETCHER, [fetcher_id])?;
        }
    }
    Ok(sections)
}

const ALL: &str =
    "SELECT started_key, jitter_key, attr_path, fetcher_id, run_started, held FROM orchestrator_group
    ORDER BY fetcher_id, run_started, held, started_key, jitter_key, attr_path LIMIT 1";

const NEXT_HELD: &str =
    "SELECT started_key, jitter_key, attr_path, fetcher_id, run_started, held FROM orchestrator_group
    WHERE fetcher_id = ?1 AND run_started = ?2 AND held > ?3
    ORDER BY held, started_key, jitter_key, attr_path LIMIT 1";

const NEXT_RUN: &str =
    "SELECT started_key, jitter_key, attr_path, fetcher_id, run_started, held FROM orchestrator_group
    WHERE fetcher_id = ?1 AND run_started > ?2
    ORDER BY run_started, held, started_key, jitter_key, attr_path LIMIT 1";

const NEXT_FETCHER: &str =
    "SELECT started_key, jitter_key, attr_path, fetcher_id, run_started, held FROM orchestrator_group
    WHERE fetcher_id > ?1
    ORDER BY fetcher_id, run_started, held, started_key, jitter_key, attr_path LIMIT 1";

fn section_where(
    conn: &Connection,
    sql: &str,
    params: impl Params,
) -> rusqlite::Result<Option<(Section, GroupKey)>> {
    conn.prepare_cached(sql)?
        .query_row(params, |row| {
            let column: i64 = row.get(5)?;
            let section = Section {
                fetcher_id: row.get(3)?,
                run_started: row.get(4)?,
                class: Class::try_from(column / 2).unwrap_or(Class::MAX),
                held: column % 2 != 0,
            };
            Ok((section, key(row, section.fetcher_id)?))
        })
        .optional()
}

pub(super) fn key(row: &Row<'_>, fetcher_id: i64) -> rusqlite::Result<GroupKey> {
    Ok(GroupKey {
        last_started: from_key(row.get(0)?),
        order_jitter: from_key(row.get(1)?),
        attr_path: row.get(2)?,
        fetcher_id,
    })
}

/// Rebuilds the table from the original's tables. Scans all rows, so it is used for adoption and
/// repair only, and after the limits have changed.
pub(super) fn rebuild(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch(&format!(include_str!("sql/rebuild_groups.sql"), null_key = NULL_KEY_SQL))
}
