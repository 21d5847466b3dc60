//! Totals for the metrics, from the log and from the attempts that a later one replaced in it.

use orchestrator_queue_rules::storage::{Ends, Sample, time_to_empty};

use super::{
    number,
    query::{Columns, Param, Query},
};

const HOUR_SECS: i64 = 3_600;
const DAY_SECS: i64 = 24 * HOUR_SECS;

/// Ends of attempts.
struct Counted {
    done: u64,
    failed: u64,
    /// Of these, in the last hour.
    in_hour: u64,
    /// First hand-out of the last hour.
    first_in_hour: Option<i64>,
}

impl Counted {
    fn read(row: &mut Columns) -> Result<Self, String> {
        Ok(Self { done: row.get()?, failed: row.get()?, in_hour: row.get()?, first_in_hour: row.get()? })
    }
}

/// Totals of the log.
pub struct LogSample {
    ends: Counted,
    in_flight: u64,
    last_done: Option<i64>,
}

/// Totals of the attempts of a day.
pub struct AttemptSample {
    ends: Counted,
    attempts: u64,
    oldest: Option<i64>,
    has_older: bool,
}

/// Jobs that wait, as a store counts them.
#[derive(Debug, Clone, Copy)]
pub struct WaitingSample {
    /// Number of the groups.
    pub groups: u64,
    /// Time at which the first run with one was added, in unix seconds.
    pub oldest: Option<i64>,
}

/// Totals of the log, one row.
#[must_use]
pub fn log_sample(now: i64) -> Query<LogSample> {
    Query::new(ACTION, include_str!("log_sample.sql"), times(now), |row| {
        Ok(LogSample { ends: Counted::read(row)?, in_flight: row.get()?, last_done: row.get()? })
    })
}

/// Totals of the attempts of a day, one row.
#[must_use]
pub fn attempt_sample(now: i64) -> Query<AttemptSample> {
    Query::new(ACTION, include_str!("attempt_sample.sql"), times(now), |row| {
        Ok(AttemptSample {
            ends: Counted::read(row)?,
            attempts: row.get()?,
            oldest: row.get()?,
            has_older: row.get()?,
        })
    })
}

/// Totals at `now`, in unix seconds. A store that has fewer than `kept` attempts has removed none.
#[must_use]
pub fn sample(
    now: i64,
    waiting: WaitingSample,
    log: &LogSample,
    attempts: &AttemptSample,
    kept: Option<u64>,
) -> Sample {
    let is_cut = kept.is_some_and(|kept| attempts.attempts >= kept) && !attempts.has_older;
    let first = [log.ends.first_in_hour, attempts.ends.first_in_hour].into_iter().flatten().min();
    let [day, hour] = [DAY_SECS, HOUR_SECS].map(|secs| now.saturating_sub(secs));
    let secs = now.saturating_sub(first.unwrap_or(hour)).unsigned_abs();
    Sample {
        waiting: waiting.groups,
        in_flight: log.in_flight,
        last_done: log.last_done,
        oldest_waiting: waiting.oldest,
        ends: Ends {
            done: log.ends.done + attempts.ends.done,
            failed: log.ends.failed + attempts.ends.failed,
            since: attempts.oldest.filter(|_| is_cut).unwrap_or(day),
        },
        time_to_empty: time_to_empty(waiting.groups, log.ends.in_hour + attempts.ends.in_hour, secs),
    }
}

/// Names the question in errors.
const ACTION: &str = "counting for the metrics";

fn times(now: i64) -> Vec<Param> {
    [DAY_SECS, HOUR_SECS].map(|secs| number(now.saturating_sub(secs))).to_vec()
}
