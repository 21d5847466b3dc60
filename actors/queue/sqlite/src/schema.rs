//! Tables of the original (CONTRACT QD08 to QD10) and their migration to version 2.

use rusqlite::Connection;

/// Newest version of the original's schema that this program knows, stored in `user_version`.
pub(super) const VERSION: i64 = 2;

const TABLES: &str = include_str!("sql/original_tables.sql");

const ATTACHED: &str = include_str!("sql/original_indexes_and_triggers.sql");

#[cfg(feature = "testing")]
const ORDER_INDEX_1: &str = "
CREATE INDEX IF NOT EXISTS queue_order_index
    ON queue (last_started, attr_path, fetcher_id, fetcher_run_started DESC);";

const ORDER_INDEX_2: &str = "
CREATE INDEX IF NOT EXISTS queue_order_index
    ON queue (last_started, order_jitter, attr_path, fetcher_id, fetcher_run_started DESC);";

const FROM_1_TO_2: &str = include_str!("sql/original_from_1_to_2.sql");

/// `user_version`, from the header of the file.
pub(super) fn version(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Migrates the original's tables to [`VERSION`] in the caller's transaction.
///
/// Decides by the existing tables and not by the version. The original writes the version after its tables,
/// so a crash can leave tables newer than their version (CONTRACT QR46).
pub(super) fn migrate(conn: &Connection) -> rusqlite::Result<()> {
    if !has_table(conn, "queue")? {
        conn.execute_batch(TABLES)?;
    }
    if !has_jitter(conn)? {
        conn.execute_batch(FROM_1_TO_2)?;
    }
    conn.execute_batch(ORDER_INDEX_2)?;
    conn.execute_batch(ATTACHED)?;
    if version(conn)? != VERSION {
        conn.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(())
}

pub(super) fn has_table(conn: &Connection, name: &str) -> rusqlite::Result<bool> {
    conn.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1")?.exists([name])
}

fn has_jitter(conn: &Connection) -> rusqlite::Result<bool> {
    conn.prepare("SELECT 1 FROM pragma_table_info('queue') WHERE name = 'order_jitter'")?.exists([])
}

/// Creates an empty database with the original's tables of `version` (1 or 2) and none of our own,
/// as other programs do (CONTRACT QD02).
///
/// # Errors
/// Of SQLite.
#[cfg(feature = "testing")]
pub fn create_version(db_path: &std::path::Path, version: i64) -> rusqlite::Result<()> {
    let conn = Connection::open(db_path)?;
    let tx = conn.unchecked_transaction()?;
    tx.execute_batch(TABLES)?;
    if version == 1 {
        tx.execute_batch(ORDER_INDEX_1)?;
    } else {
        tx.execute_batch(FROM_1_TO_2)?;
        tx.execute_batch(ORDER_INDEX_2)?;
    }
    tx.execute_batch(ATTACHED)?;
    tx.pragma_update(None, "user_version", version)?;
    tx.commit()
}
