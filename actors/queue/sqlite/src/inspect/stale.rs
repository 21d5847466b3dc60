//! Question about waiting jobs that were not tried for long.

use super::super::groups::{self, NULL_KEY};
use super::rows::{ANSWER_BYTES_MAX, IS_NEWEST, collect_within, rows};
use orchestrator_queue_rules::storage::{RunId, Section, StaleGroup};
use rusqlite::{Connection, Row, params};
use std::collections::BTreeSet;

/// Up to `limit` groups: first those last handed out before `before`, then those never handed out whose run
/// was added before that time. Reads only these.
pub(super) fn stale(conn: &Connection, before: i64, limit: usize) -> rusqlite::Result<Vec<StaleGroup>> {
    let mut stale = handed_out_before(conn, before, limit)?;
    let mut bytes = stale.iter().map(size).sum::<usize>();
    let runs = runs_before(conn, before)?;
    for (section, _) in groups::sections(conn)? {
        if !section.held && runs.contains(&(section.fetcher_id, section.run_started)) {
            let left = ANSWER_BYTES_MAX - bytes;
            let found = never_handed_out(conn, section, limit - stale.len(), left)?;
            bytes += found.iter().map(size).sum::<usize>();
            stale.extend(found);
        }
    }
    Ok(stale)
}

fn handed_out_before(conn: &Connection, before: i64, limit: usize) -> rusqlite::Result<Vec<StaleGroup>> {
    let mut statement = conn.prepare_cached(&format!(
        include_str!("../sql/inspect/handed_out_before.sql"),
        is_newest = IS_NEWEST
    ))?;
    collect_within(ANSWER_BYTES_MAX, statement.query(params![before, rows(limit)])?, stale_group, size)
}

/// Leaves out deleted runs.
fn runs_before(conn: &Connection, before: i64) -> rusqlite::Result<BTreeSet<(i64, i64)>> {
    conn.prepare_cached(
        "SELECT fetcher_id, run_started FROM orchestrator_run WHERE added < ?1
             AND (fetcher_id, run_started) NOT IN (SELECT fetcher_id, run_started FROM orchestrator_deleted_run)",
    )?
    .query_map([before], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect()
}

fn never_handed_out(
    conn: &Connection,
    section: Section,
    limit: usize,
    bytes_max: usize,
) -> rusqlite::Result<Vec<StaleGroup>> {
    let mut statement = conn.prepare_cached(include_str!("../sql/inspect/never_handed_out.sql"))?;
    let found = statement.query(params![
        section.fetcher_id,
        section.run_started,
        NULL_KEY,
        rows(limit),
        section.class
    ])?;
    collect_within(bytes_max, found, stale_group, size)
}

fn size(group: &StaleGroup) -> usize {
    group.attr_path.len() + group.run.fetcher.len()
}

fn stale_group(row: &Row<'_>) -> rusqlite::Result<StaleGroup> {
    Ok(StaleGroup {
        attr_path: row.get(0)?,
        run: RunId { fetcher: row.get(1)?, started: row.get(2)? },
        last_started: row.get(3)?,
        listed: row.get(4)?,
    })
}
