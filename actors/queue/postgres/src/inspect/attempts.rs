//! Attempts of one attribute path.

use orchestrator_queue_rules::storage::{ANSWER_BYTES_MAX, Attempt, StorageError};

use super::question::{Question, rows};
use crate::session::get;

/// Returns the instance that has a path in flight.
pub(super) async fn instance_of(
    question: &mut Question<'_>,
    attr_path: &str,
) -> Result<Option<String>, StorageError> {
    let sql = "SELECT i.instance FROM in_flight AS f JOIN incarnation AS i ON i.incarnation = f.handout_id >> 32 WHERE f.attr_path = $1";
    Ok(question.rows(sql, vec![Box::new(attr_path)], |row| get(row, 0)).await?.into_iter().next())
}

/// Newest first.
pub(super) async fn of_attr(
    question: &mut Question<'_>,
    attr_path: &str,
    limit: usize,
) -> Result<Vec<Attempt>, StorageError> {
    let sql = format!(include_str!("../sql/inspect/attempts_of_path.sql"), bytes_max = ANSWER_BYTES_MAX);
    let read = |row: &_| {
        Ok(Attempt {
            attr_path: get(row, 0)?,
            started: get(row, 1)?,
            finished: get(row, 2)?,
            exit_code: get(row, 3)?,
            fetcher: get(row, 4)?,
            connection: get(row, 5)?,
            instance: None,
        })
    };
    question.rows(sql, vec![Box::new(attr_path), Box::new(rows(limit))], read).await
}
