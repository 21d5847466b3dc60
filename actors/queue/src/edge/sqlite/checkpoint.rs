//! Moving the write-ahead log into the database, on a connection of its own so that no commit waits for it.

use super::database_file;
use super::error::explain;
use crate::storage::StorageError;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How far a checkpoint goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointMode {
    /// What can be moved without waiting for anyone; the log is used from its start again if all of it was moved.
    Passive,
    /// All of it, and then the log file is cut to nothing; waits for the store's running transaction. For idle times and
    /// the end, so that a plain copy of the file is whole.
    Truncate,
}

/// What a checkpoint reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpointed {
    /// Whether somebody stood in the way of the whole.
    pub busy: bool,
    /// Pages in the log.
    pub log_pages: u64,
    /// Pages of them that are in the database now.
    pub checkpointed_pages: u64,
}

/// The second connection to a database that a [`super::SqliteStore`] has open.
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
        let conn = connect().map_err(|error| explain(path, "opening it to checkpoint", error))?;
        Ok(Self { conn, path: path.to_path_buf() })
    }

    /// Checkpoints, and brings what was moved to the disk, all of it or not. SQLite itself syncs the database only in the
    /// checkpoint that reaches the end of the log; behind a busy writer that is the writer's own
    /// ([`super::SqliteStore::checkpoint_rest`]), which would then wait for the pages of all passes before.
    ///
    /// # Errors
    /// [`StorageError::Full`], [`StorageError::Backend`]. A lock in the way is no error but [`Checkpointed::busy`].
    pub fn checkpoint(&self, mode: CheckpointMode) -> Result<Checkpointed, StorageError> {
        let done = run(&self.conn, &self.path, mode)?;
        database_file::sync(&self.path).map_err(|error| StorageError::Backend {
            path: self.path.clone(),
            action: "bringing it to the disk",
            source: error.into(),
        })?;
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
        done => done.map_err(|error| explain(path, "checkpointing", error)),
    }
}
