//! Records of hand-outs, kept until the job is done, so that a hand-out whose reply nobody read can be
//! undone at any time. `delivered` of a record is a [`Delivery`].

use super::attempts::Recipient;
use super::attr;
use super::offers;
use super::open::Options;
use super::view::View;
use orchestrator_queue_rules::storage::{
    AttrState, Delivery, Dispatch, GroupKey, HandedOut, HandoutId, Job, LogRow, has_room, is_expired,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

/// Maximum number of expired hand-outs that one dequeue releases, oldest first.
const RELEASES: usize = 64;

/// Hands out the group at `key`, whose rows are `state`, if its payload has room.
pub(super) fn dispatch(
    conn: &Connection,
    view: &mut View,
    options: &Options,
    to: Recipient<'_>,
    key: &GroupKey,
    run_started: i64,
    state: AttrState,
) -> rusqlite::Result<HandedOut> {
    let Recipient { handout, now, unsent, .. } = to;
    let attr_path = key.attr_path.as_str();
    let row = params![run_started, key.fetcher_id, attr_path];
    if unsent > 0 && !has_room(unsent, payload_bytes(conn, row)?) {
        return Ok(HandedOut::NoRoom);
    }
    let mut after = state.clone();
    if let Some(log) = state.log.filter(|log| log.finished.is_none()) {
        restore_expired(conn, attr_path, log.started, &mut after)?;
    }
    let dispatch = after.dispatch(key.fetcher_id, now);
    attr::save(conn, view, attr_path, &state, &after)?;
    record(conn, handout, attr_path, &dispatch)?;
    let View { bumps, runs, attempts, limited, .. } = view;
    bumps.forget(conn, attr_path)?;
    bumps.use_up(conn, attr_path, handout)?;
    let fetcher = runs.name(key.fetcher_id);
    limited.begin(conn, attr_path, fetcher, now, options.hold_secs)?;
    attempts.add(conn, to, attr_path, fetcher, dispatch.previous)?;
    if runs.has_owners() {
        offers::handed_out(conn, attr_path, key.fetcher_id)?;
    }
    let payload = conn
        .prepare_cached(
            "SELECT payload FROM queue WHERE fetcher_run_started = ?1 AND fetcher_id = ?2 AND attr_path = ?3",
        )?
        .query_row(row, |row| row.get(0))?;
    Ok(HandedOut::Job(Job { attr_path: attr_path.to_owned(), payload, handout }))
}

/// SQLite knows it without reading the payload.
fn payload_bytes(conn: &Connection, row: impl Params) -> rusqlite::Result<u64> {
    conn.prepare_cached(
        "SELECT octet_length(payload) FROM queue WHERE fetcher_run_started = ?1 AND fetcher_id = ?2 AND attr_path = ?3",
    )?
    .query_row(row, |row| row.get::<_, i64>(0))
    .map(i64::unsigned_abs)
}

/// Makes the rows of the path's hand-out at `started` ready, whose hold is over, because the next hand-out
/// replaces its record. Other expired hand-outs wait for [`release_expired`].
fn restore_expired(
    conn: &Connection,
    attr_path: &str,
    started: i64,
    state: &mut AttrState,
) -> rusqlite::Result<()> {
    let kept: Option<i64> = conn
        .prepare_cached(delivery_sql!(
            "SELECT handout_id FROM orchestrator_handout
                 WHERE attr_path = ?1 AND started = ?2 AND delivered = $redeliver"
        ))?
        .query_row(params![attr_path, started], |row| row.get(0))
        .optional()?;
    let Some(kept) = kept else { return Ok(()) };
    if let Some((_, expired)) = find(conn, HandoutId(kept))? {
        state.restore_rows(&expired);
    }
    Ok(())
}

/// Writes the record. It replaces an older one of the same path, whose job was finished or whose hold is
/// over; otherwise the path would be held.
fn record(
    conn: &Connection,
    handout: HandoutId,
    attr_path: &str,
    dispatch: &Dispatch,
) -> rusqlite::Result<()> {
    let runs: Vec<String> = dispatch.runs.iter().map(i64::to_string).collect();
    let previous = dispatch.previous;
    conn.prepare_cached(
        "INSERT OR REPLACE INTO orchestrator_handout (handout_id, attr_path, fetcher_id, started, runs, had_log,
             previous_started, previous_finished, previous_exit_code)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        handout.0,
        attr_path,
        dispatch.fetcher_id,
        dispatch.started,
        runs.join(" "),
        previous.is_some(),
        previous.map(|log| log.started),
        previous.and_then(|log| log.finished),
        previous.and_then(|log| log.exit_code),
    ])?;
    Ok(())
}

/// Records a delivery. With `redeliver` the job is handed out again by [`release_expired`], and so is a job
/// of another subsystem.
pub(super) fn delivered(
    conn: &Connection,
    view: &View,
    handout: HandoutId,
    redeliver: bool,
) -> rusqlite::Result<bool> {
    let redeliver = redeliver || view.runs.has_owners() && is_of_owner(conn, view, handout)?;
    let changed = conn
        .prepare_cached(delivery_sql!(
            "UPDATE orchestrator_handout SET delivered = ?2 WHERE handout_id = ?1 AND delivered = $pending"
        ))?
        .execute([handout.0, (if redeliver { Delivery::Redeliver } else { Delivery::Final }) as i64])?;
    Ok(changed > 0 || forget_done(conn, handout)?)
}

fn is_of_owner(conn: &Connection, view: &View, handout: HandoutId) -> rusqlite::Result<bool> {
    let fetcher: Option<i64> = conn
        .prepare_cached("SELECT fetcher_id FROM orchestrator_handout WHERE handout_id = ?1")?
        .query_row([handout.0], |row| row.get(0))
        .optional()?;
    Ok(fetcher.is_some_and(|fetcher| view.runs.is_owner(fetcher)))
}

fn forget(conn: &Connection, handout: HandoutId) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM orchestrator_handout WHERE handout_id = ?1")?.execute([handout.0])?;
    Ok(())
}

/// Deletes the record of a job that was done before its delivery was recorded. Returns false for another job.
fn forget_done(conn: &Connection, handout: HandoutId) -> rusqlite::Result<bool> {
    let deleted = conn
        .prepare_cached(delivery_sql!(
            "DELETE FROM orchestrator_handout WHERE handout_id = ?1 AND delivered = $done_first"
        ))?
        .execute([handout.0])?;
    Ok(deleted > 0)
}

/// Ends the record of a path that was reported done. Without a recorded delivery it stays: the DONE may be a
/// repeated one of an earlier hand-out, and nobody may have this one.
pub(super) fn done(conn: &Connection, view: &mut View, attr_path: &str) -> rusqlite::Result<()> {
    let ended = conn
        .prepare_cached(delivery_sql!(
            "DELETE FROM orchestrator_handout WHERE attr_path = ?1 AND delivered > $pending"
        ))?
        .execute([attr_path])?;
    if ended == 0 {
        conn.prepare_cached(delivery_sql!(
            "UPDATE orchestrator_handout SET delivered = $done_first WHERE attr_path = ?1"
        ))?
        .execute([attr_path])?;
    }
    view.bumps.forget(conn, attr_path)
}

/// Deletes the record of a path that is not in flight any more, and the bump that its hand-out used.
pub(super) fn forget_attr(conn: &Connection, view: &mut View, attr_path: &str) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM orchestrator_handout WHERE attr_path = ?1")?.execute([attr_path])?;
    view.bumps.forget(conn, attr_path)
}

/// Deletes records of delivered hand-outs of former incarnations, whose connections are closed. With
/// `redeliver`, records of jobs that are handed out again stay. Jobs of other subsystems always are handed
/// out again.
pub(super) fn forget_delivered(conn: &Connection, redeliver: bool) -> rusqlite::Result<()> {
    conn.execute(
        delivery_sql!(
            "DELETE FROM orchestrator_handout WHERE delivered = $final OR delivered = $redeliver AND NOT ?1
                 AND fetcher_id NOT IN (SELECT fetcher_id FROM fetchers WHERE instr(name, '.') > 0)"
        ),
        [redeliver],
    )?;
    Ok(())
}

/// Undoes a hand-out if its path was not finished or started since: the job is ready again, and the log row
/// gets its earlier values. After a DONE that came before the record of the delivery, only the rows are ready
/// again.
pub(super) fn undo(conn: &Connection, view: &mut View, handout: HandoutId) -> rusqlite::Result<bool> {
    let Some((attr_path, dispatch)) = find(conn, handout)? else { return Ok(false) };
    let before = attr::load(conn, view, &attr_path)?;
    let mut after = before.clone();
    if forget_done(conn, handout)? {
        after.restore_rows(&dispatch);
        attr::save(conn, view, &attr_path, &before, &after)?;
        return Ok(true);
    }
    forget(conn, handout)?;
    if !after.undo(&dispatch) {
        view.bumps.forget(conn, &attr_path)?;
        return Ok(false);
    }
    view.bumps.undone(conn, handout)?;
    attr::save(conn, view, &attr_path, &before, &after)?;
    if view.runs.has_owners() {
        offers::undone(conn, &attr_path)?;
    }
    view.attempts.remove(conn, dispatch.started, handout)?;
    Ok(true)
}

pub(super) fn undo_undelivered(conn: &Connection, view: &mut View) -> rusqlite::Result<usize> {
    let ids: Vec<i64> = conn
        .prepare_cached(delivery_sql!(
            "SELECT handout_id FROM orchestrator_handout
                 WHERE delivered <= $pending ORDER BY handout_id DESC"
        ))?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut undone = 0;
    for id in ids {
        undone += usize::from(undo(conn, view, HandoutId(id))?);
    }
    Ok(undone)
}

/// Makes expired hand-outs ready again (CONTRACT QR28), oldest first. Their number is limited, so
/// that the cost of a dequeue does not depend on it.
pub(super) fn release_expired(
    conn: &Connection,
    view: &mut View,
    now: i64,
    hold: i64,
) -> rusqlite::Result<()> {
    for _ in 0..RELEASES {
        let oldest: Option<(i64, i64)> = conn
            .prepare_cached(delivery_sql!(
                "SELECT handout_id, started FROM orchestrator_handout
                     WHERE delivered = $redeliver ORDER BY started LIMIT 1"
            ))?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((handout, _)) = oldest.filter(|(_, started)| is_expired(*started, now, hold)) else {
            return Ok(());
        };
        let handout = HandoutId(handout);
        let Some((attr_path, dispatch)) = find(conn, handout)? else { return Ok(()) };
        forget_attr(conn, view, &attr_path)?;
        let before = attr::load(conn, view, &attr_path)?;
        if !before.log.is_some_and(|log| log.started == dispatch.started && log.finished.is_none()) {
            continue;
        }
        let mut after = before.clone();
        after.restore_rows(&dispatch);
        attr::save(conn, view, &attr_path, &before, &after)?;
    }
    Ok(())
}

fn find(conn: &Connection, handout: HandoutId) -> rusqlite::Result<Option<(String, Dispatch)>> {
    conn.prepare_cached(
        "SELECT attr_path, fetcher_id, started, runs, had_log, previous_started, previous_finished, previous_exit_code
         FROM orchestrator_handout WHERE handout_id = ?1",
    )?
    .query_row([handout.0], read)
    .optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<(String, Dispatch)> {
    let runs: String = row.get(3)?;
    let previous = if row.get::<_, bool>(4)? {
        Some(LogRow { started: row.get(5)?, finished: row.get(6)?, exit_code: row.get(7)? })
    } else {
        None
    };
    let dispatch = Dispatch {
        fetcher_id: row.get(1)?,
        started: row.get(2)?,
        runs: runs.split(' ').filter_map(|run| run.parse().ok()).collect(),
        previous,
    };
    Ok((row.get(0)?, dispatch))
}
