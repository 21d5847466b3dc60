//! Opening a database file: lock, schema check, write-ahead log, migration, adoption.

use super::error::explain;
use super::lock::InstanceLock;
use super::{schema, triggers};
use crate::storage::StorageError;
use orchestrator_edge::{DatabaseFiles, DatabasePart, FileReplaced};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags, TransactionBehavior};
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

/// How far a commit goes before it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// On disk: it outlives a power cut.
    #[default]
    Full,
    /// With the kernel: it outlives the process, and a power cut can take the last commits.
    Normal,
}

/// How to run a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Seconds for which a job that was not reported done keeps its attribute path from being handed out again.
    pub hold_secs: i64,
    /// Tells whether a job that nobody reported done within the hold is handed out again (CONTRACT QR28).
    pub redeliver_after_lease: bool,
    /// How far a commit goes.
    pub synchronous: Synchronous,
    /// Upper bound of the page cache in bytes.
    pub cache_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hold_secs: 43_200,
            redeliver_after_lease: false,
            synchronous: Synchronous::Full,
            cache_bytes: 32 << 20,
        }
    }
}

/// How long SQLite itself waits for a lock; longer waits are the caller's, who has others to serve meanwhile.
const BUSY_WAIT: Duration = Duration::from_millis(10);

/// Latest incarnation of any store of this process. A file that takes the place of another may be younger in incarnations: it must
/// not give out names of hand-outs that connections still know from the other one.
static LATEST: AtomicI64 = AtomicI64::new(0);

pub(super) struct Opened {
    pub(super) conn: Connection,
    pub(super) files: DatabaseFiles,
    pub(super) lock: InstanceLock,
    /// Larger at every opening.
    pub(super) incarnation: i64,
}

pub(super) fn open(path: &Path, options: &Options) -> Result<Opened, StorageError> {
    let lock = InstanceLock::take(path)?;
    let failed = |error| explain(path, "opening", error);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    conn.busy_timeout(BUSY_WAIT).map_err(failed)?;
    check_version(path, &conn)?;
    configure(&conn, options).map_err(failed)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Again, now that nobody else can write.
    check_version(path, &tx)?;
    schema::migrate(&tx).map_err(failed)?;
    if let Err(found) = triggers::adopt(&tx).map_err(failed)? {
        return Err(StorageError::NewerSchema {
            path: path.to_path_buf(),
            found,
            known: triggers::OWN_VERSION,
        });
    }
    let incarnation = triggers::next_incarnation(&tx, LATEST.load(Relaxed) + 1).map_err(failed)?;
    tx.commit().map_err(failed)?;
    LATEST.fetch_max(incarnation, Relaxed);
    let files = files(path, &conn)?;
    Ok(Opened { conn, files, lock, incarnation })
}

/// The files at `path`, which are those that `conn` has open.
fn files(path: &Path, conn: &Connection) -> Result<DatabaseFiles, StorageError> {
    let files = DatabaseFiles::at(path).map_err(|source| StorageError::Backend {
        path: path.to_path_buf(),
        action: "looking at its files",
        source: source.into(),
    })?;
    let mut moved = 0;
    conn.file_control(None::<&str>, FileControl::HasMoved(&mut moved))
        .map_err(|error| explain(path, "looking at its files", error))?;
    if moved != 0 {
        let (path, part) = (path.to_path_buf(), DatabasePart::Database);
        return Err(FileReplaced { path, part, gone: false }.into());
    }
    Ok(files)
}

fn check_version(path: &Path, conn: &Connection) -> Result<(), StorageError> {
    let found = schema::version(conn).map_err(|error| explain(path, "reading the schema version", error))?;
    if found > schema::VERSION {
        return Err(StorageError::NewerSchema { path: path.to_path_buf(), found, known: schema::VERSION });
    }
    Ok(())
}

fn configure(conn: &Connection, options: &Options) -> rusqlite::Result<()> {
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        tracing::warn!(
            mode,
            "the database does not take a write-ahead log; commits are slower and readers block writers"
        );
    }
    conn.pragma_update(
        None,
        "synchronous",
        if options.synchronous == Synchronous::Full { "FULL" } else { "NORMAL" },
    )?;
    conn.pragma_update(None, "foreign_keys", true)?;
    // A second connection moves the log into the database, outside of commits.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "cache_size", -i64::from(options.cache_bytes / 1024))?;
    // What the triggers do for foreign writers, the store does itself and cheaper.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}
