//! Opens a database file: instance lock, schema check, write-ahead log, migration, adoption.

use super::error::{file_replaced, newer_schema, storage_error};
use super::{attempts, limited, schema, triggers, unfinished};
use crate::Synchronous;
use orchestrator_edge::{DatabaseFiles, DatabaseLock, DatabasePart, FileReplaced};
use orchestrator_queue_rules::storage::{HandoutSettings, Limits, StorageError, StorageErrorKind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags, TransactionBehavior};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

/// Page cache of the connection, in bytes. With it the process stays below 120 MiB for a million rows.
const CACHE_BYTES: i64 = 32 << 20;

/// Settings of a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seconds for which a job that was not reported done keeps its attribute path from being
    /// handed out again.
    pub hold_secs: i64,
    /// Hands a job out again after its hold if no worker reported it done (CONTRACT QR28).
    pub redeliver_after_lease: bool,
    /// Durability of a commit.
    pub synchronous: Synchronous,
    /// Maximum number of attempts that are kept; 0 keeps none.
    pub attempts: u64,
    /// Limits of jobs in flight.
    pub limits: Arc<Limits>,
}

impl Options {
    /// Combines the settings of hand-outs with the durability of a commit.
    #[must_use]
    pub fn new(settings: HandoutSettings, synchronous: Synchronous) -> Self {
        let HandoutSettings { hold_secs, redeliver_after_lease, attempts, limits } = settings;
        Self { hold_secs, redeliver_after_lease, synchronous, attempts, limits: Arc::new(limits) }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new(HandoutSettings::default(), Synchronous::default())
    }
}

/// Time that SQLite itself waits for a lock. Longer waits are up to the caller, which serves others
/// meanwhile.
const BUSY_WAIT: Duration = Duration::from_millis(10);

/// Largest incarnation of any store in this process. A replaced file may contain a smaller one, but
/// ids of hand-outs must not repeat while connections know those of the former file.
static LATEST_INCARNATION: AtomicI64 = AtomicI64::new(0);

pub(super) struct Opened {
    pub(super) conn: Connection,
    pub(super) files: DatabaseFiles,
    pub(super) lock: DatabaseLock,
    /// Number that grows with every opening.
    pub(super) incarnation: i64,
}

/// Keeps other instances out of the database at `path`.
pub(super) fn lock(path: &Path) -> Result<DatabaseLock, StorageError> {
    DatabaseLock::take(path).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => {
            let text = format!(
                "database {} is used by a running instance: stop that one, or set another path in queue.database",
                path.display()
            );
            StorageError::new(StorageErrorKind::Locked, text).of_file(path)
        }
        _ => StorageError::backend(path, "locking the lock file")(error),
    })
}

pub(super) fn open(path: &Path, options: &Options) -> Result<Opened, StorageError> {
    open_locked(path, options, lock(path)?, |conn| unfinished::refuse(path, conn))
}

/// Opens the database at `path` with its lock. `check` looks at the file before it is changed.
pub(super) fn open_locked(
    path: &Path,
    options: &Options,
    lock: DatabaseLock,
    check: impl FnOnce(&Connection) -> Result<(), StorageError>,
) -> Result<Opened, StorageError> {
    let failed = |error| storage_error(path, "opening", error);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    conn.busy_timeout(BUSY_WAIT).map_err(failed)?;
    check_version(path, &conn)?;
    check(&conn)?;
    configure(&conn, options).map_err(failed)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Checked again under the write lock.
    check_version(path, &tx)?;
    schema::migrate(&tx).map_err(failed)?;
    if let Err(found) = triggers::adopt(&tx, &options.limits).map_err(failed)? {
        return Err(newer_schema(path, found, triggers::OWN_VERSION));
    }
    triggers::adopt_runs(&tx).map_err(failed)?;
    if options.attempts == 0 {
        attempts::clear(&tx).map_err(failed)?;
    }
    let incarnation =
        triggers::next_incarnation(&tx, LATEST_INCARNATION.load(Relaxed) + 1).map_err(failed)?;
    tx.commit().map_err(failed)?;
    LATEST_INCARNATION.fetch_max(incarnation, Relaxed);
    let files = files(path, &conn)?;
    Ok(Opened { conn, files, lock, incarnation })
}

/// Checks that `conn` has the files at `path` open.
fn files(path: &Path, conn: &Connection) -> Result<DatabaseFiles, StorageError> {
    let files = DatabaseFiles::at(path).map_err(StorageError::backend(path, "checking its files"))?;
    let mut moved = 0;
    conn.file_control(None::<&str>, FileControl::HasMoved(&mut moved))
        .map_err(|error| storage_error(path, "checking its files", error))?;
    if moved != 0 {
        let (path, part) = (path.to_path_buf(), DatabasePart::Database);
        return Err(file_replaced(FileReplaced { path, part, gone: false }));
    }
    Ok(files)
}

fn check_version(path: &Path, conn: &Connection) -> Result<(), StorageError> {
    let found =
        schema::version(conn).map_err(|error| storage_error(path, "reading the schema version", error))?;
    if found > schema::VERSION {
        return Err(newer_schema(path, found, schema::VERSION));
    }
    Ok(())
}

/// No transaction may be open.
pub(super) fn set_synchronous(conn: &Connection, synchronous: Synchronous) -> rusqlite::Result<()> {
    let level = if synchronous == Synchronous::Full { "FULL" } else { "NORMAL" };
    conn.pragma_update(None, "synchronous", level)
}

fn configure(conn: &Connection, options: &Options) -> rusqlite::Result<()> {
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        tracing::warn!(
            mode,
            "the database does not support a write-ahead log: commits are slower and readers block writers"
        );
    }
    set_synchronous(conn, options.synchronous)?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // A second connection runs the checkpoints.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "cache_size", -CACHE_BYTES / 1024)?;
    // The store itself does the work of the triggers, at a lower cost.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    // Otherwise, the planner looks at bound values and prepares the statements that find the next job again
    // in each dequeue.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.set_prepared_statement_cache_capacity(64);
    limited::add_function(conn, &options.limits)
}
