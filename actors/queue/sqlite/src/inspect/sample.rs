//! Totals for the metrics and the console.

use super::super::attempts::TRIMMED_MAX;
use super::super::open::Options;
use super::rows::count;
use orchestrator_queue_rules::storage::{Ends, Sample, time_to_empty};
use rusqlite::{Connection, Row, params};

const HOUR_SECS: i64 = 3_600;
const DAY_SECS: i64 = 24 * HOUR_SECS;

/// Ends of attempts, from the log or from the attempts that a later one replaced in it.
struct Counted {
    done: u64,
    failed: u64,
    /// Of these, in the last hour.
    in_hour: u64,
    /// First hand-out of the last hour.
    first_in_hour: Option<i64>,
}

/// Fetchers with the unix time at which their last run was added, in seconds.
pub(super) fn last_runs(conn: &Connection) -> rusqlite::Result<Vec<(String, i64)>> {
    conn.prepare_cached(
        "SELECT f.name, max(r.added) FROM orchestrator_run AS r JOIN fetchers AS f USING (fetcher_id)
         GROUP BY f.name",
    )?
    .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect()
}

/// Scans the log, the table of groups and the attempts of a day.
pub(super) fn sample(conn: &Connection, options: &Options, now: i64) -> rusqlite::Result<Sample> {
    let waiting = count(conn, "SELECT count(*) FROM orchestrator_ready")?;
    let (day, hour) = (now.saturating_sub(DAY_SECS), now.saturating_sub(HOUR_SECS));
    let (in_flight, last_done, last) =
        conn.query_row(include_str!("../sql/inspect/log_sample.sql"), [day, hour], |row| {
            Ok((row.get::<_, i64>(4)?.unsigned_abs(), row.get(5)?, counted(row)?))
        })?;
    let (attempts, oldest, earlier) =
        conn.query_row(include_str!("../sql/inspect/attempt_sample.sql"), [day, hour], |row| {
            Ok((row.get::<_, i64>(4)?.unsigned_abs(), row.get::<_, Option<i64>>(5)?, counted(row)?))
        })?;
    let is_cut =
        options.attempts > 0 && attempts + TRIMMED_MAX >= options.attempts && !has_attempt_before(conn, day)?;
    let first = [last.first_in_hour, earlier.first_in_hour].into_iter().flatten().min();
    let secs = now.saturating_sub(first.unwrap_or(hour)).unsigned_abs();
    Ok(Sample {
        waiting,
        in_flight,
        last_done,
        oldest_waiting: oldest_waiting(conn)?,
        ends: Ends {
            done: last.done + earlier.done,
            failed: last.failed + earlier.failed,
            since: oldest.filter(|_| is_cut).unwrap_or(day),
        },
        time_to_empty: time_to_empty(waiting, last.in_hour + earlier.in_hour, secs),
    })
}

fn counted(row: &Row<'_>) -> rusqlite::Result<Counted> {
    let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(Counted { done: count(0)?, failed: count(1)?, in_hour: count(2)?, first_in_hour: row.get(3)? })
}

fn has_attempt_before(conn: &Connection, time: i64) -> rusqlite::Result<bool> {
    conn.prepare_cached("SELECT 1 FROM orchestrator_attempt WHERE started < ?1 LIMIT 1")?
        .exists(params![time])
}

fn oldest_waiting(conn: &Connection) -> rusqlite::Result<Option<i64>> {
    conn.query_row(include_str!("../sql/inspect/oldest_waiting.sql"), [], |row| row.get(0))
}
