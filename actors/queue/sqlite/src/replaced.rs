//! Closes a database whose files were deleted, moved or replaced while it was open.

use super::checkpoint::{self, CheckpointMode};
use super::corrupt::set_log_aside;
use orchestrator_edge::{DatabaseFiles, DatabasePart, FileReplaced};
use orchestrator_queue_rules::storage::StorageError;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::path::Path;

/// Moves every commit into the database file that `conn` has open, and closes it. The empty log
/// cannot change another file at the path.
pub(super) fn close(
    conn: Connection,
    path: &Path,
    files: &DatabaseFiles,
    replaced: &FileReplaced,
    unix_time: i64,
) -> Result<(), StorageError> {
    // The log may belong to another process now, so the close must not checkpoint it.
    if let Err(error) = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::debug!(%error, "closing the database runs one more checkpoint");
    }
    if replaced.part == DatabasePart::LogIndex {
        // The log is still at its path, and the next opening reads it.
        return Ok(());
    }
    let moved = checkpoint::run(&conn, path, CheckpointMode::Truncate);
    drop(conn);
    let (log, is_ours) = files.log();
    let length = log.metadata().map_or(0, |metadata| metadata.len());
    if length > 0 && is_ours == (replaced.part == DatabasePart::Database) {
        let kept = set_log_aside(path, log, unix_time)?;
        tracing::warn!(?log, ?kept, "set aside a write-ahead log that belongs to another database file");
    }
    moved.map(drop)
}
