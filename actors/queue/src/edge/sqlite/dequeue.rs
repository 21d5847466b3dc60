//! Selection of the next job.

use super::open::Options;
use super::view::View;
use super::{attr, groups, handout};
use crate::protocol::ATTR_PATH_BYTES_MAX;
use crate::storage::{HandoutId, Job, is_expired, is_held};
use rusqlite::Connection;

/// Maximum number of repaired groups in one dequeue before the whole table of groups is rebuilt.
const REPAIRS_MAX: usize = 1_000;

/// Maximum number of attribute paths too long for a `DONE` line that one dequeue marks as dequeued
/// (CONTRACT QP13). Others wait for its commit. At the limit it returns no job, and the next dequeue
/// continues.
const MARKED_MAX: usize = 32;

/// Worker that a job is handed out to, and the time.
#[derive(Clone, Copy)]
pub(super) struct Recipient<'a> {
    pub(super) handout: HandoutId,
    pub(super) connection: &'a str,
    pub(super) now: i64,
}

/// Hands out the first eligible group, if any.
pub(super) fn next(
    conn: &Connection,
    view: &mut View,
    options: &Options,
    to: Recipient<'_>,
) -> rusqlite::Result<Option<Job>> {
    let (now, hold) = (to.now, options.hold_secs);
    if options.redeliver_after_lease {
        handout::release_expired(conn, view, now, hold)?;
    }
    let (mut repairs, mut marked) = (0, 0);
    loop {
        let [free, held] = view.heads.first(conn)?;
        let held = held.filter(|(key, _)| hold_is_over(key.last_started, now, hold));
        let Some((key, section)) = free.into_iter().chain(held).min() else { return Ok(None) };
        let state = attr::load(conn, view, &key.attr_path)?;
        let is_correct = state.positions().iter().any(|position| {
            position.run_started == section.run_started
                && position.held == section.held
                && position.has_key(&key)
        });
        if is_correct && !state.has_stale_last_started() && !is_held(state.log.as_ref(), now, hold) {
            if key.attr_path.len() > ATTR_PATH_BYTES_MAX {
                if marked == MARKED_MAX {
                    return Ok(None);
                }
                marked += 1;
                attr::mark_dequeued(conn, view, &key.attr_path, &state)?;
                continue;
            }
            return handout::dispatch(conn, view, to, &key, section.run_started, state).map(Some);
        }
        tracing::warn!(attr_path = key.attr_path, "repaired the table of groups for an attribute path");
        repairs += 1;
        if repairs > REPAIRS_MAX {
            groups::rebuild(conn)?;
            view.reload(conn)?;
            repairs = 0;
        } else {
            attr::repair(conn, view, section, &key, state)?;
        }
    }
}

fn hold_is_over(started: Option<i64>, now: i64, hold: i64) -> bool {
    started.is_none_or(|started| is_expired(started, now, hold))
}
