//! Numbers of failed jobs, for readers that must miss none (CONTRACT QD17).

use crate::{error::storage_error, server_session::Session};
use orchestrator_queue_rules::storage::{FAILURES_KEPT, StorageError};

/// Maximum number of rows that get numbers at a time, oldest first.
const NUMBERED_MAX: i64 = 10_000;

/// Numbers failures that have none, and removes the oldest ones. A statement takes at most the time limit
/// `time_limit`.
///
/// One transaction at a time gives numbers, and sees all that the one before it gave. So a reader that sees a
/// number sees all smaller ones.
pub(super) async fn number(session: &mut Session, time_limit: &str) -> Result<(), StorageError> {
    // The lock must be a statement of its own: the next one then sees what was committed before.
    let opening = format!("{time_limit} SELECT 1 FROM property WHERE name = 'version' FOR UPDATE;");
    let number = include_str!("../sql/inspect/number_failures.sql");
    let trim = "DELETE FROM failure WHERE number <= (
             SELECT number FROM failure WHERE number IS NOT NULL ORDER BY number DESC LIMIT 1 OFFSET $1)";
    let commands = vec![
        (number.into(), vec![Box::new(NUMBERED_MAX) as _]),
        (trim.into(), vec![Box::new(FAILURES_KEPT) as _]),
    ];
    let numbered = session.0.transaction("numbering failed jobs", &opening, commands).await;
    numbered.map(drop).map_err(storage_error)
}
