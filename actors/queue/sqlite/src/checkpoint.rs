//! Checkpoints: move the write-ahead log into the database, on a connection of their own so that no
//! commit waits.

use super::database_file;
use super::error::storage_error;
use orchestrator_queue_rules::storage::StorageError;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kind of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointMode {
    /// Moves the pages that need no wait. If all were moved, the log is reused from its start.
    Passive,
    /// Moves all pages and truncates the log; waits for the store's transaction. Used when idle and
    /// at the end, so that a plain copy of the file is complete.
    Truncate,
}

/// Result of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpointed {
    /// True if a reader or writer kept the checkpoint from completing.
    pub busy: bool,
    /// Number of pages in the log.
    pub log_pages: u64,
    /// Number of those pages that are in the database now.
    pub checkpointed_pages: u64,
}

/// A second connection to a database that a [`super::SqliteStore`] has open.
#[derive(Debug)]
pub struct Checkpointer {
    conn: Connection,
    path: PathBuf,
}

impl Checkpointer {
    /// Connects to the database at `path`, which must exist.
    ///
    /// # Errors
    /// Of SQLite.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let connect = || {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let conn = Connection::open_with_flags(path, flags)?;
            conn.busy_timeout(Duration::from_millis(50))?;
            conn.pragma_update(None, "synchronous", "FULL")?;
            conn.pragma_update(None, "cache_size", -256)?;
            Ok(conn)
        };
        let conn = connect().map_err(|error| storage_error(path, "opening for a checkpoint", error))?;
        Ok(Self { conn, path: path.to_path_buf() })
    }

    /// Runs a checkpoint and syncs the database file. SQLite syncs the file only in the checkpoint
    /// that reaches the end of the log. With a busy writer that is the writer's own
    /// ([`super::SqliteStore::checkpoint_final`]), which would then wait for the pages of all
    /// earlier ones.
    ///
    /// # Errors
    /// `StorageErrorKind::Full`, `StorageErrorKind::Backend`. A lock of another connection is
    /// [`Checkpointed::busy`] instead.
    pub fn checkpoint(&self, mode: CheckpointMode) -> Result<Checkpointed, StorageError> {
        let done = run(&self.conn, &self.path, mode)?;
        database_file::sync(&self.path).map_err(StorageError::backend(&self.path, "syncing"))?;
        Ok(done)
    }
}

pub(super) fn run(
    conn: &Connection,
    path: &Path,
    mode: CheckpointMode,
) -> Result<Checkpointed, StorageError> {
    let sql = match mode {
        CheckpointMode::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        CheckpointMode::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    let pages = |value: i64| u64::try_from(value).unwrap_or(0);
    let done = conn.query_row(sql, [], |row| {
        Ok(Checkpointed {
            busy: row.get::<_, i64>(0)? != 0,
            log_pages: pages(row.get(1)?),
            checkpointed_pages: pages(row.get(2)?),
        })
    });
    match done {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            Ok(Checkpointed { busy: true, log_pages: 0, checkpointed_pages: 0 })
        }
        done => done.map_err(|error| storage_error(path, "checkpointing", error)),
    }
}
