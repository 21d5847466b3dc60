//! The end of a database whose files were deleted, moved or replaced while it was open: SQLite goes on with the files that it has open,
//! and what it commits is in no file at the path any more.

use std::{path::PathBuf, time::SystemTime};

use orchestrator_edge::{DatabaseFiles, DatabasePart, FileReplaced};
use rusqlite::{Connection, config::DbConfig};

/// Moves every commit into the database file that `conn` has open, wherever it is now, and keeps closing `conn` from doing anything to a
/// log that may be another database's. A log at the path that belongs to no database there is renamed.
pub(super) fn abandon(conn: &Connection, files: &DatabaseFiles, replaced: &FileReplaced) {
    if let Err(error) = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::debug!(%error, "the log is moved once more when the database is closed");
    }
    if replaced.part == DatabasePart::LogIndex {
        // The log is where it was, and the next opening reads it.
        return;
    }
    if let Err(error) = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
        tracing::warn!(path = ?replaced.path, %error, "the log of a file that was replaced cannot be moved into it");
    }
    let (log, is_ours) = files.log();
    let length = log.metadata().map_or(0, |metadata| metadata.len());
    if length > 0 && is_ours == (replaced.part == DatabasePart::Database) {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        let mut kept = log.as_os_str().to_owned();
        kept.push(format!(".replaced-{now}"));
        let kept = PathBuf::from(kept);
        match std::fs::rename(log, &kept) {
            Ok(()) => {
                tracing::warn!(
                    ?log,
                    ?kept,
                    "set aside: a log that does not belong to the database at its side"
                );
            }
            Err(error) => {
                tracing::error!(?log, %error, "a log does not belong to the database at its side: move it away")
            }
        }
    }
}
