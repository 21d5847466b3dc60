//! Questions about attempts and jobs in flight.

use orchestrator_edge::postgres::Row;
use orchestrator_queue_rules::storage::{Attempt, FailedAttempts, Pattern, StorageError};

use super::question::{Question, rows};
use super::sql::{ANSWER_BYTES_MAX, like, within};
use crate::session::get;

/// Size of the texts of an attempt, as SQL.
const SIZE: &str = "octet_length(attr_path) + coalesce(octet_length(fetcher), 0)";

pub(super) async fn in_flight(
    question: &mut Question<'_>,
    pattern: Option<&Pattern>,
    limit: usize,
) -> Result<Vec<Attempt>, StorageError> {
    let sql = within(SIZE, include_str!("../sql/inspect/in_flight.sql"));
    let read = |row: &_| Ok(Attempt { instance: get(row, 6)?, ..attempt(row)? });
    question.rows(sql, vec![Box::new(rows(limit)), Box::new(like(pattern))], read).await
}

/// Returns the instance that has a path in flight.
pub(super) async fn instance_of(
    question: &mut Question<'_>,
    attr_path: &str,
) -> Result<Option<String>, StorageError> {
    let sql = "SELECT i.instance FROM in_flight AS f JOIN incarnation AS i ON i.incarnation = f.handout_id >> 32 WHERE f.attr_path = $1";
    Ok(question.rows(sql, vec![Box::new(attr_path)], |row| get(row, 0)).await?.into_iter().next())
}

/// Newest first.
pub(super) async fn failed(
    question: &mut Question<'_>,
    which: &FailedAttempts,
) -> Result<Vec<Attempt>, StorageError> {
    let sql = within(SIZE, include_str!("../sql/inspect/failed_attempts.sql"));
    let since = which.since.unwrap_or(i64::MIN);
    let pattern = like(which.pattern.as_ref());
    let (code, limit) = (which.exit_code, rows(which.limit));
    question
        .rows(sql, vec![Box::new(since), Box::new(code), Box::new(limit), Box::new(pattern)], attempt)
        .await
}

/// Newest first.
pub(super) async fn of_attr(
    question: &mut Question<'_>,
    attr_path: &str,
    limit: usize,
) -> Result<Vec<Attempt>, StorageError> {
    let sql = format!(include_str!("../sql/inspect/attempts_of_path.sql"), bytes_max = ANSWER_BYTES_MAX);
    question.rows(sql, vec![Box::new(attr_path), Box::new(rows(limit))], attempt).await
}

fn attempt(row: &Row) -> Result<Attempt, StorageError> {
    Ok(Attempt {
        attr_path: get(row, 0)?,
        started: get(row, 1)?,
        finished: get(row, 2)?,
        exit_code: get(row, 3)?,
        fetcher: get(row, 4)?,
        connection: get(row, 5)?,
        instance: None,
    })
}
