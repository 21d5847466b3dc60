//! Questions of operators that are the same SQL for each store, over views that each store defines in front
//! of it. Parameters are `$1` and so on.
//!
//! | view | row | columns besides path, fetcher and run |
//! |---|---|---|
//! | `log` | last hand-out of a path | `started`, `finished`, `exit_code` |
//! | `attempt` | hand-out | `handout_id`, `connection`, and `previous_*`: the row of `log` before it |
//! | `failure` | failed job | `number`, and those of `log` |
//! | `holder` | path in flight, if the store is shared | `instance` |
//! | `runs` | run | `is_complete`, `is_deleted`, `added`, numbers of rows: `jobs`, `waiting` |
//! | `listed` | row of a run, also of one that is being deleted | `is_dequeued` |
//! | `waiting` | the only one | `ready`, number of the groups that wait, and `held`, of those in flight |
//! | `tried` | group that was handed out | `started`, `added`, `order_jitter` |
//! | `untried` | group that waits and never was | `added`, `class_order`, `order_jitter` |
//!
//! The function `path_matches(pattern, attr_path)` matches as [`Glob`] does, and is true without a pattern.
//!
//! [`Glob`]: orchestrator_queue_rules::storage::glob::Glob

mod query;
mod sample;

pub use self::{
    query::{Param, Query, with_views},
    sample::{AttemptSample, LogSample, WaitingSample, attempt_sample, log_sample, sample},
};

use self::query::{Columns, Texts};
use orchestrator_queue_rules::{
    listing::{PACE_SECS, Pace},
    storage::{
        Attempt, Counts, FailedAttempts, FailedJob, LISTED_MAX, ListedRow, Pattern, RunCount, RunId,
        RunState, StaleGroup,
    },
};

/// Texts of an attempt whose sizes count.
const ATTEMPT_TEXTS: Texts = &[(0, "attr_path"), (4, "fetcher")];

/// Runs with the numbers of their rows.
#[must_use]
pub fn runs() -> Query<RunCount> {
    let sql = include_str!("questions/runs.sql");
    Query::new("counting the rows of runs", sql, vec![], |row| {
        let run = RunId { fetcher: row.get()?, started: row.get()? };
        let state = RunState { run, complete: row.get()? };
        Ok(RunCount { state, deleted: row.get()?, rows: row.get()?, waiting: row.get()? })
    })
}

/// Totals of the database, one row.
#[must_use]
pub fn counts() -> Query<Counts> {
    Query::new("counting", include_str!("questions/counts.sql"), vec![], |row| {
        Ok(Counts {
            rows: row.get()?,
            ready: row.get()?,
            held: row.get()?,
            logged: row.get()?,
            in_flight: row.get()?,
        })
    })
}

/// Jobs in flight, those handed out first.
#[must_use]
pub fn in_flight(pattern: Option<&Pattern>, limit: usize) -> Query<Attempt> {
    let params = vec![rows(limit), text(pattern)];
    let sql = include_str!("questions/in_flight.sql");
    Query::new("reading the jobs in flight", sql, params, attempt).within(ATTEMPT_TEXTS)
}

/// Failed attempts, newest first.
#[must_use]
pub fn failed(which: &FailedAttempts) -> Query<Attempt> {
    let params = vec![
        number(which.since.unwrap_or(i64::MIN)),
        Param::Integer(which.exit_code),
        rows(which.limit),
        text(which.pattern.as_ref()),
    ];
    let sql = include_str!("questions/failed.sql");
    Query::new("reading failed attempts", sql, params, attempt).within(ATTEMPT_TEXTS)
}

/// Failed jobs with numbers above `after`, oldest first.
#[must_use]
pub fn failures(after: i64, limit: usize) -> Query<FailedJob> {
    let params = vec![number(after), rows(limit)];
    let query = Query::new("reading failed jobs", include_str!("questions/failures.sql"), params, |row| {
        Ok(FailedJob {
            number: row.get()?,
            attr_path: row.get()?,
            exit_code: row.get()?,
            started: row.get()?,
            finished: row.get()?,
            fetcher: row.get()?,
        })
    });
    query.within(&[(1, "attr_path")])
}

/// Groups that were not tried since `before`.
#[must_use]
pub fn stale(before: i64, limit: usize) -> Query<StaleGroup> {
    let params = vec![number(before), rows(limit)];
    let query = Query::new("reading stale rows", include_str!("questions/stale.sql"), params, |row| {
        Ok(StaleGroup {
            attr_path: row.get()?,
            run: RunId { fetcher: row.get()?, started: row.get()? },
            last_started: row.get()?,
            listed: row.get()?,
        })
    });
    query.within(&[(0, "attr_path"), (1, "fetcher")])
}

/// Rows that list a path, newest runs first.
#[must_use]
pub fn listed(attr_path: &str) -> Query<ListedRow> {
    let params = vec![Param::Text(Some(attr_path.to_owned())), rows(LISTED_MAX)];
    Query::new("reading the rows of a path", include_str!("questions/listed.sql"), params, |row| {
        let run = RunId { fetcher: row.get()?, started: row.get()? };
        Ok(ListedRow { run, added: row.get()?, handed_out: row.get()? })
    })
}

/// Listed paths near a path.
#[must_use]
pub fn neighbors(attr_path: &str) -> Query<String> {
    let params = vec![Param::Text(Some(attr_path.to_owned()))];
    let sql = include_str!("questions/neighbors.sql");
    Query::new("reading similar paths", sql, params, Columns::get).within(&[(0, "attr_path")])
}

/// Fetchers with the time at which their last run was added, in unix seconds.
#[must_use]
pub fn last_runs() -> Query<(String, i64)> {
    let sql =
        "SELECT fetcher, max(added) FROM runs WHERE added IS NOT NULL GROUP BY fetcher ORDER BY fetcher";
    Query::new("reading the last runs", sql, vec![], |row| Ok((row.get()?, row.get()?)))
}

/// Hand-outs of the last hours, one row.
#[must_use]
pub fn pace(now: i64) -> Query<Pace> {
    let params = vec![number(now.saturating_sub(PACE_SECS)), number(now)];
    Query::new("counting hand-outs", include_str!("questions/pace.sql"), params, move |row| {
        let (handed_out, first) = (row.get()?, row.get::<Option<i64>>()?);
        Ok(Pace { handed_out, secs: now.saturating_sub(first.unwrap_or(now)) })
    })
}

fn attempt(row: &mut Columns) -> Result<Attempt, String> {
    Ok(Attempt {
        attr_path: row.get()?,
        started: row.get()?,
        finished: row.get()?,
        exit_code: row.get()?,
        fetcher: row.get()?,
        connection: row.get()?,
        instance: row.get()?,
    })
}

fn number(number: i64) -> Param {
    Param::Integer(Some(number))
}

fn rows(limit: usize) -> Param {
    number(i64::try_from(limit).unwrap_or(i64::MAX))
}

fn text(pattern: Option<&Pattern>) -> Param {
    Param::Text(pattern.map(|pattern| pattern.as_str().to_owned()))
}
