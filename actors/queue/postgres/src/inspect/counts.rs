//! Totals for the metrics and the console.

use orchestrator_edge::postgres::Row;
use orchestrator_queue_rules::storage::{
    Counts, Ends, InstanceRow, RunCount, RunId, RunState, Sample, StorageError, time_to_empty,
};

use super::question::{Question, count};
use super::sql::NEWEST;
use crate::session::get;

const HOUR_SECS: i64 = 3_600;
const DAY_SECS: i64 = 24 * HOUR_SECS;

pub(super) async fn runs(question: &mut Question<'_>) -> Result<Vec<RunCount>, StorageError> {
    let sql = format!(include_str!("../sql/inspect/runs.sql"), newest = NEWEST);
    let read = |row: &_| {
        let run = RunId { fetcher: get(row, 0)?, started: get(row, 1)? };
        let state = RunState { run, complete: get(row, 2)? };
        Ok(RunCount { state, deleted: get(row, 3)?, rows: count(row, 4)?, waiting: count(row, 5)? })
    };
    question.rows(sql, Vec::new(), read).await
}

pub(super) async fn counts(question: &mut Question<'_>) -> Result<Counts, StorageError> {
    let sql = format!(include_str!("../sql/inspect/counts.sql"), newest = NEWEST);
    let read = |row: &_| {
        Ok(Counts {
            rows: count(row, 0)?,
            ready: count(row, 1)?,
            held: count(row, 2)?,
            logged: count(row, 3)?,
            in_flight: count(row, 4)?,
        })
    };
    question.row(sql, Vec::new(), read).await
}

pub(super) async fn instances(question: &mut Question<'_>) -> Result<Vec<InstanceRow>, StorageError> {
    let sql = include_str!("../sql/inspect/instances.sql");
    let read = |row: &_| {
        Ok(InstanceRow {
            instance: get(row, 0)?,
            live: get(row, 1)?,
            lease_until: get(row, 2)?,
            host: get(row, 3)?,
            socket: get(row, 4)?,
            fetchers: count(row, 5)?,
            in_flight: count(row, 6)?,
        })
    };
    question.rows(sql, Vec::new(), read).await
}

/// Fetchers with the time at which their last run was added.
pub(super) async fn last_runs(question: &mut Question<'_>) -> Result<Vec<(String, i64)>, StorageError> {
    let sql = "SELECT f.name, max(r.added) FROM run AS r JOIN fetcher AS f USING (fetcher_id) GROUP BY f.name ORDER BY f.name";
    question.rows(sql, Vec::new(), |row| Ok((get(row, 0)?, get(row, 1)?))).await
}

/// Ends of attempts, from the log or from the attempts that a later one replaced in it.
struct Counted {
    done: u64,
    failed: u64,
    /// Of these, in the last hour.
    in_hour: u64,
    /// First hand-out of the last hour.
    first_in_hour: Option<i64>,
}

/// Reads all rows, the log and the attempts of a day.
pub(super) async fn sample(question: &mut Question<'_>, now: i64) -> Result<Sample, StorageError> {
    let (day, hour) = (now.saturating_sub(DAY_SECS), now.saturating_sub(HOUR_SECS));
    let sql = format!("SELECT count(*), min(added) FROM {NEWEST} AS g WHERE NOT is_dequeued");
    let (waiting, oldest_waiting) =
        question.row(sql, Vec::new(), |row| Ok((count(row, 0)?, get(row, 1)?))).await?;
    let sql = include_str!("../sql/inspect/log_sample.sql");
    let read = |row: &_| Ok((count(row, 4)?, get(row, 5)?, counted(row)?));
    let (in_flight, last_done, last) = question.row(sql, vec![Box::new(day), Box::new(hour)], read).await?;
    let sql = include_str!("../sql/inspect/attempt_sample.sql");
    let read =
        |row: &_| Ok((count(row, 4)?, get::<Option<i64>>(row, 5)?, get::<bool>(row, 6)?, counted(row)?));
    let (attempts, oldest, has_older, earlier) =
        question.row(sql, vec![Box::new(day), Box::new(hour)], read).await?;
    let kept = question.settings.attempts;
    let is_cut = kept > 0 && attempts >= kept && !has_older;
    let first = [last.first_in_hour, earlier.first_in_hour].into_iter().flatten().min();
    let secs = now.saturating_sub(first.unwrap_or(hour)).unsigned_abs();
    Ok(Sample {
        waiting,
        in_flight,
        last_done,
        oldest_waiting,
        ends: Ends {
            done: last.done + earlier.done,
            failed: last.failed + earlier.failed,
            since: oldest.filter(|_| is_cut).unwrap_or(day),
        },
        time_to_empty: time_to_empty(waiting, last.in_hour + earlier.in_hour, secs),
    })
}

fn counted(row: &Row) -> Result<Counted, StorageError> {
    Ok(Counted {
        done: count(row, 0)?,
        failed: count(row, 1)?,
        in_hour: count(row, 2)?,
        first_in_hour: get(row, 3)?,
    })
}
