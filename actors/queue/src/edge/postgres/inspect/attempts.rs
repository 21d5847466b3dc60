//! Questions about attempts and jobs in flight.

use orchestrator_edge::postgres::Row;
use orchestrator_queue_rules::storage::{Attempt, FailedAttempts, Pattern, StorageError};

use super::question::{Question, rows};
use super::sql::{ANSWER_BYTES_MAX, like, within};
use crate::edge::postgres::session::get;

/// Size of the texts of an attempt, as SQL.
const SIZE: &str = "octet_length(attr_path) + coalesce(octet_length(fetcher), 0)";

/// Scans the log.
pub(super) async fn in_flight(
    question: &mut Question<'_>,
    pattern: Option<&Pattern>,
    limit: usize,
) -> Result<Vec<Attempt>, StorageError> {
    let sql = within(
        SIZE,
        "SELECT l.attr_path, l.started, NULL::bigint, NULL::bigint, a.fetcher, a.connection, i.instance
         FROM (SELECT attr_path, started FROM log WHERE finished IS NULL AND ($2::text IS NULL OR attr_path LIKE $2)
               ORDER BY started, attr_path LIMIT $1) AS l
             LEFT JOIN LATERAL (
                 SELECT a.fetcher, a.connection FROM attempt AS a WHERE a.attr_path = l.attr_path AND a.started = l.started
                 ORDER BY a.handout_id DESC LIMIT 1) AS a ON true
             LEFT JOIN in_flight AS f ON f.attr_path = l.attr_path
             LEFT JOIN incarnation AS i ON i.incarnation = f.handout_id >> 32
         ORDER BY l.started, l.attr_path",
    );
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

/// Newest first. Scans the log and the attempts.
///
/// Numbers of hand-outs grow only within an incarnation, their upper half.
pub(super) async fn failed(
    question: &mut Question<'_>,
    which: &FailedAttempts,
) -> Result<Vec<Attempt>, StorageError> {
    let sql = within(
        SIZE,
        "SELECT e.attr_path, e.started, e.finished, e.exit_code, a.fetcher, a.connection
         FROM (
             SELECT attr_path, started, finished, exit_code, 9223372036854775807 AS next FROM log
             WHERE started >= $1 AND CASE WHEN $2::bigint IS NULL THEN exit_code <> 0 ELSE exit_code = $2 END
                 AND ($4::text IS NULL OR attr_path LIKE $4)
             UNION ALL
             SELECT attr_path, previous_started, previous_finished, previous_exit_code, handout_id FROM attempt
             WHERE previous_started >= $1
                 AND CASE WHEN $2::bigint IS NULL THEN previous_exit_code <> 0 ELSE previous_exit_code = $2 END
                 AND ($4::text IS NULL OR attr_path LIKE $4)
             ORDER BY 2 DESC, 1 DESC, 5 DESC LIMIT $3) AS e
             LEFT JOIN LATERAL (
                 SELECT a.fetcher, a.connection FROM attempt AS a
                 WHERE a.attr_path = e.attr_path AND a.started = e.started
                     AND (a.handout_id < e.next OR a.handout_id >> 32 <> e.next >> 32)
                 ORDER BY a.handout_id DESC LIMIT 1) AS a ON true
         ORDER BY e.started DESC, e.attr_path DESC, e.next DESC",
    );
    let since = which.since.unwrap_or(i64::MIN);
    let pattern = like(which.pattern.as_ref());
    let (code, limit) = (which.exit_code, rows(which.limit));
    question
        .rows(sql, vec![Box::new(since), Box::new(code), Box::new(limit), Box::new(pattern)], attempt)
        .await
}

/// Newest first, from the path's log row along the log rows that each attempt replaced.
pub(super) async fn of_attr(
    question: &mut Question<'_>,
    attr_path: &str,
    limit: usize,
) -> Result<Vec<Attempt>, StorageError> {
    // An attempt that is not kept has no row; the next one is then the latest before it, whose end is lost.
    let sql = "WITH RECURSIVE walk AS (
             SELECT 0::bigint AS n, NULL::bigint AS started, NULL::bigint AS finished, NULL::bigint AS exit_code,
                 NULL AS fetcher, NULL AS connection, log.started AS next_started, log.finished AS next_finished,
                 log.exit_code AS next_exit_code, ARRAY[]::bigint[] AS seen
             FROM log WHERE log.attr_path = $1
             UNION ALL
             SELECT w.n + 1, w.next_started, w.next_finished, w.next_exit_code,
                 CASE WHEN a.started = w.next_started THEN a.fetcher END,
                 CASE WHEN a.started = w.next_started THEN a.connection END,
                 CASE WHEN a.started = w.next_started THEN a.previous_started ELSE a.started END,
                 CASE WHEN a.started = w.next_started THEN a.previous_finished END,
                 CASE WHEN a.started = w.next_started THEN a.previous_exit_code END,
                 CASE WHEN a.started = w.next_started THEN w.seen || a.handout_id ELSE w.seen END
             FROM walk AS w LEFT JOIN LATERAL (
                 SELECT * FROM attempt AS a
                 WHERE a.attr_path = $1 AND a.started <= w.next_started AND a.handout_id <> ALL (w.seen)
                 ORDER BY a.started DESC, a.handout_id DESC LIMIT 1) AS a ON true
             WHERE w.next_started IS NOT NULL AND w.n < $2)
         SELECT $1, started, finished, exit_code, fetcher, connection FROM walk WHERE n > 0 ORDER BY n";
    let sql = format!(
        "SELECT * FROM (
             SELECT w.*, sum(octet_length($1) + coalesce(octet_length(fetcher), 0)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes,
                 row_number() OVER (ROWS UNBOUNDED PRECEDING) AS n
             FROM ({sql}) AS w) AS w
         WHERE bytes <= {ANSWER_BYTES_MAX} OR n = 1"
    );
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
