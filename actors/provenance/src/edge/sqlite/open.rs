//! Opening a file: lock, whose file it is, write-ahead log, tables.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{error::explain, lock::OwnerLock, schema};
use crate::store::StoreError;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How far a commit goes.
    pub synchronous: Synchronous,
    /// Upper bound of the page cache in bytes. The indexes over identifiers are read and written all over: the more of
    /// them fits, the less a row costs.
    pub cache_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { synchronous: Synchronous::Full, cache_bytes: 64 << 20 }
    }
}

/// Our own writes wait for nobody (readers do not block them); this is for tools that an operator runs beside us.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// Page cache of a reader in bytes.
const READER_CACHE_BYTES: u32 = 8 << 20;

/// Pages in the log before a commit moves them into the file: 16 MiB, so that a page that many commits touch is moved
/// once.
const CHECKPOINT_PAGES: i64 = 4_096;

/// What stays of a log that a long reader let grow, in bytes.
const LOG_BYTES: i64 = 64 << 20;

/// Statements kept prepared: all of ours.
const STATEMENTS: usize = 64;

/// A connection that may write, and the right to it.
pub(super) fn writer(path: &Path, options: Options) -> Result<(Connection, OwnerLock), StoreError> {
    let lock = OwnerLock::take(path)?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |error| explain(path, "opening", &error);
    let mut conn = Connection::open_with_flags(path, flags).map_err(failed)?;
    conn.busy_timeout(BUSY_WAIT).map_err(failed)?;
    // Before anything is changed: a foreign file stays as it is.
    check(path, &conn)?;
    configure(&conn, options).map_err(failed)?;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    schema::create(&tx).map_err(failed)?;
    tx.commit().map_err(failed)?;
    Ok((conn, lock))
}

/// A connection that cannot write. The file must be there, with its tables.
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
    if check(path, &conn)? == schema::Owner::Nobody {
        return Err(StoreError::Away(format!("{} is empty: open its store first", path.display())));
    }
    Ok(conn)
}

/// Refuses files of others and of versions that are not known yet.
fn check(path: &Path, conn: &Connection) -> Result<schema::Owner, StoreError> {
    let foreign = || {
        StoreError::Refused(format!("{} is no provenance store of ours: name another file", path.display()))
    };
    let owner = schema::owner(conn).map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => foreign(),
        _ => explain(path, "reading the version of", &error),
    })?;
    match owner {
        schema::Owner::Other => Err(foreign()),
        schema::Owner::Us { version } if version > schema::VERSION => Err(StoreError::Refused(format!(
            "{} is of version {version} and this program knows {} at most: use a newer one",
            path.display(),
            schema::VERSION
        ))),
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
