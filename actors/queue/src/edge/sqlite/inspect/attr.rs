//! Questions about one attribute path.

use super::super::groups::{self, NULL_KEY, to_key};
use super::super::runs::Runs;
use super::super::section::Section;
use super::{Inspector, attempts};
use crate::storage::{AttrReport, GroupKey, RunId, StorageError, WaitingGroup, is_expired};
use rusqlite::{Connection, params};
use std::time::Duration;

impl Inspector {
    /// Returns the state of an attribute path at `now` with up to `limit` attempts. Counts the groups
    /// before it, and scans the attempts.
    ///
    /// # Errors
    /// [`StorageError::Backend`] ("interrupted") after `deadline`, and others of SQLite.
    pub fn attr(
        &mut self,
        attr_path: &str,
        now: i64,
        limit: usize,
        deadline: Duration,
    ) -> Result<AttrReport, StorageError> {
        self.ask("reading the state of a path", deadline, |conn, hold_secs| {
            let in_flight = attempts::in_flight_of(conn, attr_path)?;
            let held = in_flight.as_ref().is_some_and(|job| !is_expired(job.started, now, hold_secs));
            let mut waiting = Vec::new();
            for (key, run, payload) in ready_groups(conn, attr_path)? {
                let position = if held { None } else { Some(1 + groups_before(conn, &key, now, hold_secs)?) };
                waiting.push(WaitingGroup { run, payload, position });
            }
            Ok(AttrReport {
                waiting,
                in_flight: in_flight.map(|job| {
                    let until = job.started.saturating_add(hold_secs);
                    (job, until)
                }),
                attempts: attempts::of_attr(conn, attr_path, limit)?,
            })
        })
    }
}

/// Returns the ready groups of a path with the beginnings of their payloads.
fn ready_groups(conn: &Connection, attr_path: &str) -> rusqlite::Result<Vec<(GroupKey, RunId, String)>> {
    conn.prepare_cached(
        "SELECT q.fetcher_id, q.last_started, q.order_jitter, f.name, q.fetcher_run_started, substr(q.payload, 1, 500)
         FROM queue AS q JOIN fetchers AS f USING (fetcher_id)
         WHERE q.attr_path = ?1 AND q.is_dequeued = 0
             AND NOT EXISTS (
                 SELECT 1 FROM orchestrator_deleted_run AS d
                 WHERE d.fetcher_id = q.fetcher_id AND d.run_started = q.fetcher_run_started)
             AND NOT EXISTS (
                 SELECT 1 FROM queue AS newer
                 WHERE newer.attr_path = ?1 AND newer.fetcher_id = q.fetcher_id
                     AND newer.fetcher_run_started > q.fetcher_run_started
                     AND NOT EXISTS (
                         SELECT 1 FROM orchestrator_deleted_run AS d
                         WHERE d.fetcher_id = newer.fetcher_id AND d.run_started = newer.fetcher_run_started))
         ORDER BY q.fetcher_id",
    )?
    .query_map([attr_path], |row| {
        let key = GroupKey {
            last_started: row.get(1)?,
            order_jitter: row.get(2)?,
            attr_path: attr_path.to_owned(),
            fetcher_id: row.get(0)?,
        };
        Ok((key, RunId { fetcher: row.get(3)?, started: row.get(4)? }, row.get(5)?))
    })?
    .collect()
}

/// Returns the number of groups that are handed out before `key`.
fn groups_before(conn: &Connection, key: &GroupKey, now: i64, hold_secs: i64) -> rusqlite::Result<u64> {
    let runs = Runs::load(conn)?;
    let (mut before, mut at) = (0, None);
    while let Some((section, _)) = groups::next_section(conn, at)? {
        at = Some(section);
        if !runs.is_deleted(section.fetcher_id, section.run_started) {
            let started_before = if section.held { now.saturating_sub(hold_secs) } else { i64::MAX };
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
    conn.prepare_cached(
        "SELECT count(*) FROM orchestrator_group
         WHERE fetcher_id = ?1 AND run_started = ?2 AND held = ?3 AND (started_key < ?4 OR started_key = ?5)
             AND started_key <= ?6
             AND (started_key, jitter_key, attr_path, fetcher_id) < (?6, ?7, ?8, ?9)",
    )?
    .query_row(
        params![
            section.fetcher_id,
            section.run_started,
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
