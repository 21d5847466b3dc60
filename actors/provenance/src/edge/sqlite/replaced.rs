//! Handling of a database whose files were deleted, moved or replaced while open (CONTRACT PS08).
//! SQLite continues on the open files, so its commits reach no file at the path.

use std::time::SystemTime;

use orchestrator_edge::{DatabaseFiles, DatabasePart, FileReplaced, with_suffix};
use rusqlite::{Connection, config::DbConfig};

/// Checkpoints all commits into the open database file, wherever it is now. Closing `conn` then
/// leaves the log at the path alone, which may belong to another database. A log at the path that
/// belongs to no database there is renamed.
pub(super) fn set_aside(conn: &Connection, files: &DatabaseFiles, replaced: &FileReplaced) {
    if let Err(error) = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::debug!(%error, "the log is checkpointed once more at closing");
    }
    if replaced.part == DatabasePart::LogIndex {
        // The log is in place, and the next opening reads it.
        return;
    }
    if let Err(error) = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
        tracing::warn!(path = ?replaced.path, %error, "the log of a file that was replaced cannot be moved into it");
    }
    let (log, is_ours) = files.log();
    let length = log.metadata().map_or(0, |metadata| metadata.len());
    if length > 0 && is_ours == (replaced.part == DatabasePart::Database) {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        let kept = with_suffix(log, &format!(".replaced-{now}"));
        match std::fs::rename(log, &kept) {
            Ok(()) => {
                tracing::warn!(?log, ?kept, "renamed a log that does not belong to the database beside it");
            }
            Err(error) => {
                tracing::error!(?log, %error, "cannot rename a log that does not belong to the database beside it: move it away")
            }
        }
    }
}
