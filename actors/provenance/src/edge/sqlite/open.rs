//! Opening of a database: lock, check of the owner, write-ahead log, tables.

use std::{io::ErrorKind, path::Path, time::Duration};

use orchestrator_edge::DatabaseLock;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{error::explain, schema};
use crate::store::StoreError;

/// Durability of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Synchronous {
    /// Synced to disk: survives a power failure.
    #[default]
    Full,
    /// Written to the kernel: survives the process; a power failure can lose the last commits.
    #[cfg(test)]
    Normal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// Durability of a commit.
    pub synchronous: Synchronous,
    /// Upper bound of the page cache, in bytes. Indexes over identifiers are accessed randomly, so
    /// a larger cache makes writes cheaper.
    pub cache_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { synchronous: Synchronous::Full, cache_bytes: 64 << 20 }
    }
}

/// Time-out of locks. Readers do not block this store's writes; operators' tools may.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// Page cache of a reader, in bytes.
const READER_CACHE_BYTES: u32 = 8 << 20;

/// Pages in the write-ahead log before a checkpoint: 16 MiB, so that pages touched by many commits
/// are copied once.
const CHECKPOINT_PAGES: i64 = 4_096;

/// Maximum size of the log file after a checkpoint, in bytes.
const LOG_BYTES: i64 = 64 << 20;

/// Capacity of the cache of prepared statements: enough for all.
const STATEMENTS: usize = 64;

/// Opens a connection that writes, and locks the database.
pub(super) fn writer(path: &Path, options: Options) -> Result<(Connection, DatabaseLock), StoreError> {
    let lock = DatabaseLock::take(path).map_err(|error| {
        StoreError::unavailable(match error.kind() {
            ErrorKind::WouldBlock => format!(
                "{} is open in another store: stop that one, or give this one a file of its own",
                path.display()
            ),
            _ => format!("locking the lock file of {}: {error}", path.display()),
        })
    })?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |error| explain(path, "opening", &error);
    let mut conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    conn.busy_timeout(BUSY_WAIT).map_err(failed)?;
    // Before any change, so that a foreign file stays as it is.
    check(path, &conn)?;
    configure(&conn, options).map_err(failed)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    schema::create(&tx).map_err(failed)?;
    tx.commit().map_err(failed)?;
    Ok((conn, lock))
}

/// Opens a read-only connection. The file must exist, with its tables.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connect = || {
        let conn = Connection::open_with_flags(path, flags)?;
        conn.busy_timeout(BUSY_WAIT)?;
        conn.pragma_update(None, "cache_size", -i64::from(READER_CACHE_BYTES / 1024))?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(conn)
    };
    let conn = connect().map_err(|error| explain(path, "opening to read", &error))?;
    if check(path, &conn)? == schema::FileOwner::Empty {
        return Err(StoreError::unavailable(format!("{} is empty: open its store first", path.display())));
    }
    Ok(conn)
}

/// Refuses files of other programs and of newer versions.
fn check(path: &Path, conn: &Connection) -> Result<schema::FileOwner, StoreError> {
    let foreign =
        || StoreError::Refused(format!("{} is not a provenance store: name another file", path.display()));
    let owner = schema::owner(conn).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => foreign(),
        _ => explain(path, "reading the version of", &error),
    })?;
    match owner {
        schema::FileOwner::Foreign => Err(foreign()),
        schema::FileOwner::Provenance { version } if version > schema::VERSION => {
            Err(StoreError::Refused(format!(
                "{} is of version {version} and this program knows {} at most: use a newer one",
                path.display(),
                schema::VERSION
            )))
        }
        owner => Ok(owner),
    }
}

fn configure(conn: &Connection, options: Options) -> rusqlite::Result<()> {
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        tracing::warn!(
            mode,
            "the file does not take a write-ahead log; commits are slower and readers block writers"
        );
    }
    let synchronous = if options.synchronous == Synchronous::Full { "FULL" } else { "NORMAL" };
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    conn.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    conn.pragma_update(None, "cache_size", -i64::from(options.cache_bytes / 1024))?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}
