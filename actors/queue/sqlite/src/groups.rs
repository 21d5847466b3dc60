//! The table of ready groups: one row for each group whose representative row is not dequeued.

use orchestrator_queue_rules::storage::{GroupKey, GroupPosition, Section};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params, params_from_iter};

/// Value of NULL in keys, which a primary key cannot hold. It sorts before all times and jitters.
pub(super) const NULL_KEY: i64 = i64::MIN;

/// [`NULL_KEY`] as SQL, which has no literal for it.
pub(super) const NULL_KEY_SQL: &str = "(-9223372036854775807 - 1)";

pub(super) fn to_key(value: Option<i64>) -> i64 {
    value.unwrap_or(NULL_KEY)
}

pub(super) fn from_key(key: i64) -> Option<i64> {
    (key != NULL_KEY).then_some(key)
}

/// Statement of [`insert_by`], to be reused for many rows.
pub(super) fn insert_statement(conn: &Connection) -> rusqlite::Result<CachedStatement<'_>> {
    conn.prepare_cached(
        "INSERT INTO orchestrator_ready (fetcher_id, run_started, class, is_held, started_key, jitter_key, attr_path)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
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
        position.section.class,
        position.section.held,
        to_key(position.last_started),
        to_key(position.order_jitter),
        attr_path
    ])?;
    Ok(())
}

/// Removes a group if it exists.
pub(super) fn remove(conn: &Connection, position: &GroupPosition, attr_path: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "DELETE FROM orchestrator_ready
         WHERE fetcher_id = ?1 AND run_started = ?2 AND class = ?3 AND is_held = ?4 AND started_key = ?5 AND jitter_key = ?6
             AND attr_path = ?7",
    )?
    .execute(params![
        position.section.fetcher_id,
        position.section.run_started,
        position.section.class,
        position.section.held,
        to_key(position.last_started),
        to_key(position.order_jitter),
        attr_path
    ])?;
    Ok(())
}

pub(super) fn first(conn: &Connection, section: Section) -> rusqlite::Result<Option<GroupKey>> {
    conn.prepare_cached(
        "SELECT started_key, jitter_key, attr_path FROM orchestrator_ready
         WHERE fetcher_id = ?1 AND run_started = ?2 AND class = ?3 AND is_held = ?4
         ORDER BY started_key, jitter_key, attr_path LIMIT 1",
    )?
    .query_row(params![section.fetcher_id, section.run_started, section.class, section.held], |row| {
        key(row, section.fetcher_id)
    })
    .optional()
}

/// Counts the groups of a section, up to `limit`.
pub(super) fn count(conn: &Connection, section: Section, limit: u64) -> rusqlite::Result<u64> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    conn.prepare_cached(
        "SELECT count(*) FROM (SELECT 1 FROM orchestrator_ready
             WHERE fetcher_id = ?1 AND run_started = ?2 AND class = ?3 AND is_held = ?4 LIMIT ?5)",
    )?
    .query_row(params![section.fetcher_id, section.run_started, section.class, section.held, limit], |row| {
        row.get::<_, i64>(0)
    })
    .map(i64::unsigned_abs)
}

/// Takes four seeks at most for each section. A row comparison such as `(a, b, c) > (?, ?, ?)` would be
/// shorter, but SQLite then scans from the first equal row.
pub(super) fn sections(conn: &Connection) -> rusqlite::Result<Vec<(Section, GroupKey)>> {
    let mut sections = Vec::new();
    let mut next = section_where(conn, ALL, &[])?;
    while let Some((last, key)) = next {
        sections.push((last, key));
        let of_last = [last.fetcher_id, last.run_started, last.class.into(), last.held.into()];
        next = None;
        for (sql, columns) in BEHIND.into_iter().zip((1..=of_last.len()).rev()) {
            next = section_where(conn, sql, &of_last[..columns])?;
            if next.is_some() {
                break;
            }
        }
    }
    Ok(sections)
}

const ALL: &str =
    "SELECT started_key, jitter_key, attr_path, fetcher_id, run_started, class, is_held FROM orchestrator_ready
    ORDER BY fetcher_id, run_started, class, is_held, started_key, jitter_key, attr_path LIMIT 1";

/// First group behind a section: of its class, its run, its fetcher, any fetcher.
const BEHIND: [&str; 4] = [
    "SELECT started_key, jitter_key, attr_path, fetcher_id, run_started, class, is_held FROM orchestrator_ready
    WHERE fetcher_id = ?1 AND run_started = ?2 AND class = ?3 AND is_held > ?4
    ORDER BY is_held, started_key, jitter_key, attr_path LIMIT 1",
    "SELECT started_key, jitter_key, attr_path, fetcher_id, run_started, class, is_held FROM orchestrator_ready
    WHERE fetcher_id = ?1 AND run_started = ?2 AND class > ?3
    ORDER BY class, is_held, started_key, jitter_key, attr_path LIMIT 1",
    "SELECT started_key, jitter_key, attr_path, fetcher_id, run_started, class, is_held FROM orchestrator_ready
    WHERE fetcher_id = ?1 AND run_started > ?2
    ORDER BY run_started, class, is_held, started_key, jitter_key, attr_path LIMIT 1",
    "SELECT started_key, jitter_key, attr_path, fetcher_id, run_started, class, is_held FROM orchestrator_ready
    WHERE fetcher_id > ?1
    ORDER BY fetcher_id, run_started, class, is_held, started_key, jitter_key, attr_path LIMIT 1",
];

fn section_where(
    conn: &Connection,
    sql: &str,
    params: &[i64],
) -> rusqlite::Result<Option<(Section, GroupKey)>> {
    conn.prepare_cached(sql)?
        .query_row(params_from_iter(params), |row| {
            let section = Section {
                fetcher_id: row.get(3)?,
                run_started: row.get(4)?,
                class: row.get(5)?,
                held: row.get(6)?,
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
