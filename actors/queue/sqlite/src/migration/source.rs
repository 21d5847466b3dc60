//! A SQLite file that is read.

use super::super::error::{newer_schema, storage_error};
use super::super::open::lock;
use super::super::{schema, triggers, unfinished};
use super::{CACHE_BYTES, count, read};
use crate::pause_file;
use orchestrator_edge::{DatabaseLock, with_suffix};
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use orchestrator_queue_store::migration::{Counters, Side, Source, Table, Take};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that SQLite waits for another program's transaction.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Connection with SQLite's write lock, so that no program can change the file.
pub struct SqliteSource {
    conn: Connection,
    path: PathBuf,
    _lock: DatabaseLock,
}

impl SqliteSource {
    /// Opens the database at `path`, which a store has adopted, and changes nothing in it.
    ///
    /// # Errors
    /// [`StorageErrorKind::Locked`] while an instance uses it, [`StorageErrorKind::Busy`] while another
    /// program writes, [`StorageErrorKind::Unfinished`], [`StorageErrorKind::NotMigrated`] if its tables are
    /// not those of a store, errors of SQLite.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let failed = |error| storage_error(path, "opening", error);
        if !path.exists() {
            return Err(refused(path, "it does not exist"));
        }
        let lock = lock(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags).map_err(failed)?;
        conn.busy_timeout(BUSY_WAIT).map_err(failed)?;
        conn.pragma_update(None, "cache_size", -CACHE_BYTES / 1024).map_err(failed)?;
        let log = with_suffix(path, "-wal");
        if log.metadata().is_ok_and(|log| log.len() > 0) {
            // After a crash, the log is left to the next start.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
        }
        conn.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        unfinished::refuse(path, &conn)?;
        let found = schema::version(&conn).map_err(failed)?;
        if found > schema::VERSION {
            return Err(newer_schema(path, found, schema::VERSION));
        }
        if found < schema::VERSION || !is_adopted(&conn).map_err(failed)? {
            return Err(refused(
                path,
                "another program has made or changed it: start the queue with it, stop it, and repeat the command",
            ));
        }
        let source = Self { conn, path: path.to_path_buf(), _lock: lock };
        let fits = "SELECT count(*) FROM queue WHERE order_jitter IS NULL";
        let unordered: i64 = source.conn.query_row(fits, [], |row| row.get(0)).map_err(failed)?;
        match unordered {
            0 => Ok(source),
            _ => Err(refused(path, &format!("{unordered} rows of the table queue have no order_jitter"))),
        }
    }
}

fn refused(path: &Path, reason: &str) -> StorageError {
    StorageError::new(StorageErrorKind::NotMigrated, format!("database {}: {reason}", path.display()))
}

/// Returns true if a store has made its tables, and knows all runs.
fn is_adopted(conn: &Connection) -> rusqlite::Result<bool> {
    if !triggers::is_adopted(conn)? {
        return Ok(false);
    }
    conn.query_row(
        "SELECT NOT EXISTS (SELECT 1 FROM fetcher_runs
             WHERE (fetcher_id, run_started) NOT IN (SELECT fetcher_id, run_started FROM orchestrator_run))",
        [],
        |row| row.get(0),
    )
}

impl Side for SqliteSource {
    fn count(&mut self, table: Table) -> Result<u64, StorageError> {
        count(&self.conn, &self.path, table)
    }

    fn read(&mut self, table: Table, take: &mut Take<'_>) -> Result<(), StorageError> {
        read(&self.conn, &self.path, table, take)
    }
}

impl Source for SqliteSource {
    fn counters(&mut self) -> Result<Counters, StorageError> {
        let number = |sql| {
            let read = self.conn.query_row(sql, [], |row| row.get::<_, i64>(0)).optional();
            read.map(Option::unwrap_or_default)
                .map_err(|error| storage_error(&self.path, "reading the last numbers", error))
        };
        Ok(Counters {
            incarnation: number("SELECT value FROM orchestrator_meta WHERE name = 'incarnation'")?,
            fetcher: number("SELECT seq FROM sqlite_sequence WHERE name = 'fetchers'")?,
            pause: pause_file::pause(&self.path),
        })
    }
}
