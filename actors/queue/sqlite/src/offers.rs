//! Jobs that other subsystems offer (CONTRACT QO12). A job has a row of `queue` until it ends, and its claim
//! and end are in a table of our own.
//!
//! `state` of a claim is 0 before its first hand-out, 1 after it, and 2 after the end.

use super::view::View;
use super::{attr, ingest};
use orchestrator_queue_rules::storage::{
    AttrState, Batch, OWNER_RUN, OfferEnd, OfferState, OfferedJob, RunId,
};
use rusqlite::{Connection, OptionalExtension, params};

/// Time for which an end that nobody asked for is kept, in seconds.
const KEPT_SECS: i64 = 7 * 86_400;

/// Adds a job, or replaces one under another claim; one that was handed out under the claim `former` goes on.
pub(super) fn offer(
    conn: &Connection,
    view: &mut View,
    job: &OfferedJob,
    former: Option<&str>,
    payload: &str,
) -> rusqlite::Result<OfferState> {
    view.runs.upsert(conn, &RunId::new(job.owner(), OWNER_RUN), true)?;
    let fetcher_id = view.runs.fetcher_id(job.owner()).unwrap_or_default();
    if let Some(former) = former {
        conn.prepare_cached(
            "UPDATE orchestrator_offer SET claim = ?4 WHERE attr_path = ?1 AND fetcher_id = ?2 AND claim = ?3 AND state > 0",
        )?
        .execute(params![job.attr_path(), fetcher_id, former, job.claim()])?;
    }
    let (is_known, end) = find(conn, fetcher_id, job)?;
    if let Some(end) = end {
        return Ok(OfferState::Finished(end));
    }
    let before = attr::load(conn, view, job.attr_path())?;
    let row = before.rows.iter().position(|row| (row.fetcher_id, row.run_started) == (fetcher_id, OWNER_RUN));
    match row {
        Some(_) if is_known => return Ok(OfferState::Open),
        Some(at) => {
            let mut after = before.clone();
            after.rows[at].is_dequeued = false;
            attr::save(conn, view, job.attr_path(), &before, &after)?;
            conn.prepare_cached("UPDATE queue SET payload = ?2 WHERE rowid = ?1")?
                .execute(params![after.rows[at].rowid, payload])?;
        }
        // Also if another program has deleted the row.
        None => {
            let batch = Batch::after(0, [(job.attr_path().to_owned(), payload.to_owned())]);
            let (live, entries) = ([OWNER_RUN], batch.entries_from(0));
            ingest::enqueue(conn, view, fetcher_id, OWNER_RUN, &live, entries, None)?;
        }
    }
    conn.prepare_cached(
        "INSERT OR REPLACE INTO orchestrator_offer (attr_path, fetcher_id, claim) VALUES (?1, ?2, ?3)",
    )?
    .execute(params![job.attr_path(), fetcher_id, job.claim()])?;
    Ok(OfferState::Open)
}

/// Returns whether the job is known under its claim, and its end.
fn find(conn: &Connection, fetcher_id: i64, job: &OfferedJob) -> rusqlite::Result<(bool, Option<OfferEnd>)> {
    let found = conn
        .prepare_cached(
            "SELECT exit_code, seconds FROM orchestrator_offer WHERE attr_path = ?1 AND fetcher_id = ?2 AND claim = ?3",
        )?
        .query_row(params![job.attr_path(), fetcher_id, job.claim()], |row| {
            let (exit_code, seconds): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
            Ok(exit_code.zip(seconds).map(|(exit_code, seconds)| OfferEnd { exit_code, seconds }))
        })
        .optional()?;
    Ok((found.is_some(), found.flatten()))
}

/// Removes a job if it is known under its claim.
pub(super) fn withdraw(conn: &Connection, view: &mut View, job: &OfferedJob) -> rusqlite::Result<bool> {
    let Some(fetcher_id) = view.runs.fetcher_id(job.owner()) else { return Ok(false) };
    let known = conn
        .prepare_cached(
            "DELETE FROM orchestrator_offer WHERE attr_path = ?1 AND fetcher_id = ?2 AND claim = ?3",
        )?
        .execute(params![job.attr_path(), fetcher_id, job.claim()])?;
    if known == 0 {
        return Ok(false);
    }
    let state = attr::load(conn, view, job.attr_path())?;
    remove_row(conn, view, job.attr_path(), fetcher_id, &state)?;
    Ok(true)
}

/// Removes a job unless a worker has it or has ended it. Returns true if nobody has it.
pub(super) fn take_back(conn: &Connection, view: &mut View, job: &OfferedJob) -> rusqlite::Result<bool> {
    let Some(fetcher_id) = view.runs.fetcher_id(job.owner()) else { return Ok(true) };
    let is_handed_out = conn
        .prepare_cached(
            "SELECT 1 FROM orchestrator_offer WHERE attr_path = ?1 AND fetcher_id = ?2 AND claim = ?3 AND state > 0",
        )?
        .exists(params![job.attr_path(), fetcher_id, job.claim()])?;
    if !is_handed_out {
        withdraw(conn, view, job)?;
    }
    Ok(!is_handed_out)
}

/// Removes the row of an owner from the rows of an attribute path.
fn remove_row(
    conn: &Connection,
    view: &mut View,
    attr_path: &str,
    fetcher_id: i64,
    before: &AttrState,
) -> rusqlite::Result<()> {
    let mut after = before.clone();
    after.rows.retain(|row| (row.fetcher_id, row.run_started) != (fetcher_id, OWNER_RUN));
    conn.prepare_cached(
        "DELETE FROM queue WHERE fetcher_run_started = ?1 AND fetcher_id = ?2 AND attr_path = ?3",
    )?
    .execute(params![OWNER_RUN, fetcher_id, attr_path])?;
    attr::move_groups(conn, view, attr_path, &before.positions(), &after.positions())
}

/// Records that the group of `fetcher_id` was handed out. Jobs of other owners with the same path, whose hold
/// is over, wait again.
pub(super) fn handed_out(conn: &Connection, attr_path: &str, fetcher_id: i64) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "UPDATE orchestrator_offer SET state = (fetcher_id = ?2) WHERE attr_path = ?1 AND state < 2",
    )?
    .execute(params![attr_path, fetcher_id])?;
    Ok(())
}

/// Records that the path is not in flight any more and was not reported done.
pub(super) fn undone(conn: &Connection, attr_path: &str) -> rusqlite::Result<()> {
    conn.prepare_cached("UPDATE orchestrator_offer SET state = 0 WHERE attr_path = ?1 AND state = 1")?
        .execute([attr_path])?;
    Ok(())
}

/// Records the end of the job in flight, if another subsystem has offered it under the claim of its hand-out.
pub(super) fn finish(
    conn: &Connection,
    view: &mut View,
    attr_path: &str,
    end: OfferEnd,
    now: i64,
) -> rusqlite::Result<Option<OfferedJob>> {
    let in_flight: Option<(i64, String)> = conn
        .prepare_cached(
            "UPDATE orchestrator_offer SET state = 2, exit_code = ?2, seconds = ?3, finished = ?4
             WHERE attr_path = ?1 AND state = 1 RETURNING fetcher_id, claim",
        )?
        .query_row(params![attr_path, end.exit_code, end.seconds, now], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((fetcher_id, claim)) = in_flight else { return Ok(None) };
    let state = attr::load(conn, view, attr_path)?;
    remove_row(conn, view, attr_path, fetcher_id, &state)?;
    // Attribute paths of offers are encoded already, so that encoding would change them.
    Ok(view.runs.name(fetcher_id).map(|owner| OfferedJob::new(owner, attr_path, claim)))
}

/// Removes all jobs that wait, and old ends.
pub(super) fn withdraw_waiting(conn: &Connection, view: &mut View, now: i64) -> rusqlite::Result<usize> {
    conn.execute(
        "DELETE FROM orchestrator_offer WHERE state = 2 AND finished < ?1",
        [now.saturating_sub(KEPT_SECS)],
    )?;
    let waiting: Vec<(String, i64)> = conn
        .prepare("DELETE FROM orchestrator_offer WHERE state = 0 RETURNING attr_path, fetcher_id")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    for (attr_path, fetcher_id) in &waiting {
        let state = attr::load(conn, view, attr_path)?;
        remove_row(conn, view, attr_path, *fetcher_id, &state)?;
    }
    Ok(waiting.len())
}
