//! Tables of the original (CONTRACT QD08 to QD10) and their migration to version 2.

use rusqlite::Connection;

/// Newest version of the original's schema that this program knows, stored in `user_version`.
pub(super) const VERSION: i64 = 2;

const TABLES: &str = "
CREATE TABLE fetchers (
    fetcher_id integer PRIMARY KEY AUTOINCREMENT,
    name text NOT NULL UNIQUE
) STRICT;
CREATE TABLE fetcher_runs (
    fetcher_id integer NOT NULL REFERENCES fetchers (fetcher_id),
    run_started integer NOT NULL,
    is_complete integer NOT NULL DEFAULT 0,
    PRIMARY KEY (fetcher_id, run_started)
) STRICT;
CREATE TABLE queue (
    fetcher_id integer NOT NULL,
    fetcher_run_started integer NOT NULL,
    attr_path text NOT NULL,
    payload text NOT NULL,
    is_dequeued integer NOT NULL DEFAULT 0,
    last_started integer,
    PRIMARY KEY (fetcher_run_started, fetcher_id, attr_path),
    FOREIGN KEY (fetcher_id, fetcher_run_started) REFERENCES fetcher_runs (fetcher_id, run_started) ON DELETE CASCADE
) STRICT;
CREATE TABLE log (
    attr_path text PRIMARY KEY,
    started integer NOT NULL,
    finished integer,
    exit_code integer
) STRICT, WITHOUT ROWID;";

/// Indexes and triggers of the tables, except the order index, which differs between versions.
const ATTACHED: &str = "
CREATE INDEX IF NOT EXISTS fetcher_run_started_index ON fetcher_runs (run_started, fetcher_id);
CREATE INDEX IF NOT EXISTS queue_attr_path_index ON queue (attr_path);
CREATE TRIGGER IF NOT EXISTS fetcher_runs_delete AFTER DELETE ON fetcher_runs
WHEN NOT EXISTS (SELECT 1 FROM fetcher_runs WHERE fetcher_id = OLD.fetcher_id)
BEGIN
    DELETE FROM fetchers WHERE fetcher_id = OLD.fetcher_id;
END;
CREATE TRIGGER IF NOT EXISTS queue_insert_started AFTER INSERT ON queue
WHEN EXISTS (SELECT 1 FROM log WHERE attr_path = NEW.attr_path)
BEGIN
    UPDATE queue SET last_started = (SELECT started FROM log WHERE attr_path = NEW.attr_path) WHERE rowid = NEW.rowid;
END;
CREATE TRIGGER IF NOT EXISTS log_insert_started AFTER INSERT ON log
BEGIN
    UPDATE queue SET last_started = NEW.started WHERE attr_path = NEW.attr_path;
END;
CREATE TRIGGER IF NOT EXISTS log_update_started AFTER UPDATE OF started ON log
BEGIN
    UPDATE queue SET last_started = NEW.started WHERE attr_path = NEW.attr_path;
END;";

#[cfg(test)]
const ORDER_INDEX_1: &str = "
CREATE INDEX IF NOT EXISTS queue_order_index
    ON queue (last_started, attr_path, fetcher_id, fetcher_run_started DESC);";

const ORDER_INDEX_2: &str = "
CREATE INDEX IF NOT EXISTS queue_order_index
    ON queue (last_started, order_jitter, attr_path, fetcher_id, fetcher_run_started DESC);";

/// Rows of version 1 have no jitter and are dropped; the fetcher files still contain them
/// (CONTRACT QD02).
const FROM_1_TO_2: &str = "
DELETE FROM queue;
DELETE FROM fetcher_runs;
DELETE FROM fetchers;
DELETE FROM log;
ALTER TABLE queue ADD COLUMN order_jitter integer;
DROP INDEX IF EXISTS queue_order_index;";

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
#[cfg(test)]
pub(crate) fn create_version(db_path: &std::path::Path, version: i64) -> rusqlite::Result<()> {
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
