//! Selection of the next job.

use super::attempts::Recipient;
use super::open::Options;
use super::view::View;
use super::{attr, groups, handout};
use orchestrator_queue_rules::{
    protocol::ATTR_PATH_BYTES_MAX,
    storage::{HandedOut, is_expired, is_held},
};
use rusqlite::Connection;

/// Maximum number of repaired groups in one dequeue before the whole table of groups is rebuilt.
const REPAIRS_MAX: usize = 1_000;

/// Maximum number of attribute paths too long for a `DONE` line that one dequeue marks as dequeued
/// (CONTRACT QP13). Others wait for its commit. At the limit it returns no job, and the next dequeue
/// continues.
const MARKED_MAX: usize = 32;

/// Hands out the first eligible group, if any.
pub(super) fn next(
    conn: &Connection,
    view: &mut View,
    options: &Options,
    to: Recipient<'_>,
) -> rusqlite::Result<HandedOut> {
    let (now, hold) = (to.now, options.hold_secs);
    if options.redeliver_after_lease || view.runs.has_owners() {
        handout::release_expired(conn, view, now, hold)?;
    }
    match next_bumped(conn, view, options, to)? {
        HandedOut::Nothing => {}
        found => return Ok(found),
    }
    let (mut repairs, mut marked) = (0, 0);
    loop {
        let View { heads, limited, .. } = view;
        let [free, held] = heads.first(conn, |class| limited.is_full(class, now, hold))?;
        let held = held.filter(|(key, _)| hold_is_over(key.last_started, now, hold));
        let Some((key, section)) = free.into_iter().chain(held).min() else { return Ok(HandedOut::Nothing) };
        let state = attr::load(conn, view, &key.attr_path)?;
        let positions = state.positions();
        let mut same = positions.iter().filter(|position| {
            position.section.run_started == section.run_started
                && position.section.held == section.held
                && position.has_key(&key)
        });
        let class = same.next().map(|position| position.section.class);
        if class == Some(section.class)
            && !state.has_stale_last_started()
            && !is_held(state.log.as_ref(), now, hold)
        {
            if key.attr_path.len() > ATTR_PATH_BYTES_MAX {
                if marked == MARKED_MAX {
                    return Ok(HandedOut::Nothing);
                }
                marked += 1;
                attr::mark_dequeued(conn, view, &key.attr_path, &state)?;
                continue;
            }
            return handout::dispatch(conn, view, options, to, &key, section.run_started, state);
        }
        // Triggers of other connections do not know the classes.
        if class.is_none_or(|class| class == section.class) {
            tracing::warn!(attr_path = key.attr_path, "repaired the table of groups for an attribute path");
        }
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

/// Hands out the first bumped path that is eligible, and drops bumps of which nothing waits.
fn next_bumped(
    conn: &Connection,
    view: &mut View,
    options: &Options,
    to: Recipient<'_>,
) -> rusqlite::Result<HandedOut> {
    let hold = options.hold_secs;
    for attr_path in view.bumps.waiting() {
        let found = attr::load(conn, view, &attr_path)?;
        let mut state = found.clone();
        state.sync_last_started();
        attr::save(conn, view, &attr_path, &found, &state)?;
        let positions = state.positions();
        if positions.is_empty() {
            view.bumps.remove(conn, &attr_path)?;
            continue;
        }
        let is_full = |class| view.limited.is_full(class, to.now, hold);
        let open = positions.iter().filter(|position| !is_full(position.section.class));
        let first = open.min_by_key(|position| position.key(&attr_path));
        if let Some(first) = first.filter(|_| !is_held(state.log.as_ref(), to.now, hold)) {
            let key = first.key(&attr_path);
            let run_started = first.section.run_started;
            return handout::dispatch(conn, view, options, to, &key, run_started, state);
        }
    }
    Ok(HandedOut::Nothing)
}

fn hold_is_over(started: Option<i64>, now: i64, hold: i64) -> bool {
    started.is_none_or(|started| is_expired(started, now, hold))
}
