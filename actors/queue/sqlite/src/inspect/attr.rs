//! Questions about one attribute path.

use super::super::groups::{self, NULL_KEY, to_key};
use super::super::limited::Limited;
use super::super::open::Options;
use super::super::runs::Runs;
use super::answer::{answer, payload_start};
use super::ready_groups::ready_groups;
use super::{attempts, bumped};
use orchestrator_queue_rules::storage::{
    AttrReport, Class, GroupKey, POSITION_MAX, Section, WaitingGroup, is_expired,
};
use orchestrator_queue_store::questions;
use rusqlite::{Connection, params};

/// Has up to `limit` attempts. Counts the groups before that of the path.
pub(super) fn attr(
    conn: &Connection,
    options: &Options,
    attr_path: &str,
    now: i64,
    limit: usize,
) -> rusqlite::Result<AttrReport> {
    let (hold_secs, limited) = (options.hold_secs, Limited::load(conn, &options.limits)?);
    let mut attempts = attempts::of_attr(conn, attr_path, limit.max(1))?;
    let in_flight = attempts.first().filter(|last| last.finished.is_none()).cloned();
    attempts.truncate(limit);
    let held = in_flight.as_ref().is_some_and(|job| !is_expired(job.started, now, hold_secs));
    let bumped = bumped::eligible(conn, &limited, now, hold_secs)?;
    let until = now.saturating_sub(hold_secs);
    let is_full = |class| limited.is_full(class, now, hold_secs);
    let mut waiting = Vec::new();
    for (key, run, rowid) in ready_groups(conn, attr_path)? {
        let class = limited.limits.class(attr_path, Some(&run.fetcher));
        let full = limited.limits.limit(class).filter(|_| is_full(class)).cloned();
        let position =
            if held || full.is_some() { None } else { Some(position(conn, &key, &bumped, &is_full, until)?) };
        let position = position.map(|position| position.min(POSITION_MAX + 1));
        let payload = payload_start(conn, rowid)?;
        waiting.push(WaitingGroup { run, payload, position, full });
    }
    Ok(AttrReport {
        listed: answer(conn, &questions::listed(attr_path))?,
        waiting,
        in_flight,
        hold_secs,
        attempts,
    })
}

/// Position from 1. Bumped groups come first.
fn position(
    conn: &Connection,
    key: &GroupKey,
    bumped: &[(GroupKey, Section)],
    is_full: &dyn Fn(Class) -> bool,
    holds_before: i64,
) -> rusqlite::Result<u64> {
    if let Some(at) = bumped.iter().position(|(first, _)| first == key) {
        return Ok(1 + at as u64);
    }
    let before = groups_before(conn, key, is_full, holds_before)?;
    Ok(1 + before + bumped.iter().filter(|(first, _)| first > key).count() as u64)
}

/// Counts in the order without bumps. Holds of jobs that began before `holds_before` are over.
fn groups_before(
    conn: &Connection,
    key: &GroupKey,
    is_full: &dyn Fn(Class) -> bool,
    holds_before: i64,
) -> rusqlite::Result<u64> {
    let runs = Runs::load(conn)?;
    let mut before = 0;
    for (section, _) in groups::sections(conn)? {
        if !runs.is_deleted(section.fetcher_id, section.run_started) && !is_full(section.class) {
            let started_before = if section.held { holds_before } else { i64::MAX };
            before += section_before(conn, section, key, started_before)?;
        }
    }
    Ok(before)
}

fn section_before(
    conn: &Connection,
    section: Section,
    key: &GroupKey,
    started_before: i64,
) -> rusqlite::Result<u64> {
    conn.prepare_cached(include_str!("../sql/inspect/groups_before.sql"))?
        .query_row(
            params![
                section.fetcher_id,
                section.run_started,
                section.class,
                section.held,
                started_before,
                NULL_KEY,
                to_key(key.last_started),
                to_key(key.order_jitter),
                key.attr_path,
                key.fetcher_id
            ],
            |row| row.get::<_, i64>(0),
        )
        .map(i64::unsigned_abs)
}
