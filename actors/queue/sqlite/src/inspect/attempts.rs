//! Attempts of one attribute path.

use super::super::attr;
use orchestrator_queue_rules::storage::{ANSWER_BYTES_MAX, Attempt, LogRow};
use rusqlite::{Connection, params};

/// Newest first, from the path's log row along the log rows that each attempt replaced.
///
/// Reads the attempts of one second for each. If another program handed out the job, all attempts before that
/// are scanned.
pub(super) fn of_attr(conn: &Connection, attr_path: &str, limit: usize) -> rusqlite::Result<Vec<Attempt>> {
    let mut statement = conn.prepare_cached(
        "SELECT started, fetcher, connection, handout_id, previous_started, previous_finished, previous_exit_code
         FROM orchestrator_attempt WHERE attr_path = ?1 AND started <= ?2 AND handout_id < ?3
         ORDER BY started DESC, handout_id DESC LIMIT 1",
    )?;
    let (mut attempts, mut size, mut handouts_before) = (Vec::new(), 0, i64::MAX);
    let mut next = attr::load_log(conn, attr_path)?;
    while let Some(log) = next.filter(|_| attempts.len() < limit) {
        let mut attempt = Attempt {
            attr_path: attr_path.to_owned(),
            started: log.started,
            finished: log.finished,
            exit_code: log.exit_code,
            fetcher: None,
            connection: None,
            instance: None,
        };
        let mut found = statement.query(params![attr_path, log.started, handouts_before])?;
        next = match found.next()? {
            Some(row) if row.get::<_, i64>(0)? == log.started => {
                (attempt.fetcher, attempt.connection) = (row.get(1)?, row.get(2)?);
                handouts_before = row.get(3)?;
                let previous: Option<i64> = row.get(4)?;
                let (finished, exit_code) = (row.get(5)?, row.get(6)?);
                previous.map(|started| LogRow { started, finished, exit_code })
            }
            // Another program handed out the job after this attempt, whose end is lost.
            Some(row) => Some(LogRow { started: row.get(0)?, finished: None, exit_code: None }),
            None => None,
        };
        size += attr_path.len() + attempt.fetcher.as_ref().map_or(0, String::len);
        if size > ANSWER_BYTES_MAX && !attempts.is_empty() {
            break;
        }
        attempts.push(attempt);
    }
    Ok(attempts)
}
