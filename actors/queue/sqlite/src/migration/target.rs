//! A SQLite file that is written.

use super::super::checkpoint::{self, CheckpointMode};
use super::super::error::storage_error;
use super::super::open::{Opened, Options, lock, open_locked, set_synchronous};
use super::super::schema::has_table;
use super::super::{groups, unfinished};
use super::{CACHE_BYTES, Param, count, read};
use crate::Synchronous;
use crate::pause_file;
use orchestrator_queue_rules::storage::{Limits, StorageError, StorageErrorKind};
use orchestrator_queue_store::migration::{Counters, Row, Side, Table, Take, Target, Value};
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pages of the write-ahead log after which SQLite moves them.
const CHECKPOINT_PAGES: i64 = 4_096;

/// Connection to a database without rows, or with those of an unfinished migration.
pub struct SqliteTarget {
    opened: Opened,
    path: PathBuf,
}

impl SqliteTarget {
    /// Opens or creates the database at `path`.
    ///
    /// # Errors
    /// [`StorageErrorKind::Locked`] while an instance uses it, [`StorageErrorKind::NotMigrated`] if it has
    /// rows, errors of SQLite.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let failed = |error| storage_error(path, "opening", error);
        // The first start makes the table of groups anew if it has other limits.
        let options = Options {
            synchronous: Synchronous::Normal,
            limits: Arc::new(Limits(Vec::new())),
            ..Options::default()
        };
        let opened = open_locked(path, &options, lock(path)?, |conn| {
            let is_unfinished = has_table(conn, unfinished::TABLE).map_err(failed)?;
            if is_unfinished { Ok(()) } else { refuse_rows(path, conn) }
        })?;
        for (name, value) in [("wal_autocheckpoint", CHECKPOINT_PAGES), ("cache_size", -CACHE_BYTES / 1024)] {
            opened.conn.pragma_update(None, name, value).map_err(failed)?;
        }
        Ok(Self { opened, path: path.to_path_buf() })
    }

    fn conn(&self) -> &Connection {
        &self.opened.conn
    }

    fn failed(&self, action: &'static str) -> impl Fn(rusqlite::Error) -> StorageError {
        let path = self.path.clone();
        move |error| storage_error(&path, action, error)
    }

    /// Removes what a migration that was interrupted has written, and sets the mark.
    fn empty(&self, mark: &str) -> rusqlite::Result<()> {
        // All tables are emptied, whatever refers to them, and SQLite does not look at each row.
        self.conn().pragma_update(None, "foreign_keys", false)?;
        let tx = self.conn().unchecked_transaction()?;
        for table in tables(&tx)? {
            tx.execute_batch(&format!("DELETE FROM {table}"))?;
        }
        tx.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS {} (state text NOT NULL) STRICT",
            unfinished::TABLE
        ))?;
        tx.execute(&format!("INSERT INTO {} (state) VALUES (?1)", unfinished::TABLE), [mark])?;
        tx.commit()?;
        self.conn().pragma_update(None, "foreign_keys", true)
    }

    fn write_rows(&self, table: Table, rows: &[Row]) -> rusqlite::Result<()> {
        let tx = self.conn().unchecked_transaction()?;
        for sql in super::sql::inserts(table) {
            let mut insert = tx.prepare_cached(sql)?;
            for row in rows {
                for (at, value) in row.iter().enumerate().take(insert.parameter_count()) {
                    insert.raw_bind_parameter(at + 1, Param(value))?;
                }
                insert.raw_execute()?;
            }
        }
        tx.commit()
    }

    fn derive(&self, counters: &Counters) -> rusqlite::Result<()> {
        let tx = self.conn().unchecked_transaction()?;
        groups::rebuild(&tx)?;
        tx.execute(
            "UPDATE orchestrator_meta SET value = max(value, ?1) WHERE name = 'incarnation'",
            [counters.incarnation],
        )?;
        tx.execute("DELETE FROM sqlite_sequence WHERE name = 'fetchers'", [])?;
        tx.execute(
            "INSERT INTO sqlite_sequence (name, seq)
                 SELECT 'fetchers', max(?1, (SELECT ifnull(max(fetcher_id), 0) FROM fetchers))",
            params![counters.fetcher],
        )?;
        tx.execute_batch(&format!("DROP TABLE {}", unfinished::TABLE))?;
        tx.commit()
    }
}

/// Names of the tables of a queue.
fn tables(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut tables = conn.prepare(
        "SELECT '\"' || replace(name, '\"', '\"\"') || '\"' FROM sqlite_schema
         WHERE type = 'table' AND name NOT GLOB 'sqlite_*' AND name <> 'orchestrator_meta'",
    )?;
    tables.query_map([], |row| row.get(0))?.collect()
}

/// Checks that no table of the database has a row, but for numbers of a queue that never had one.
fn refuse_rows(path: &Path, conn: &Connection) -> Result<(), StorageError> {
    let find = || -> rusqlite::Result<Option<String>> {
        for table in tables(conn)? {
            if conn.prepare(&format!("SELECT 1 FROM {table}"))?.exists([])? {
                return Ok(Some(table));
            }
        }
        Ok(None)
    };
    match find().map_err(|error| storage_error(path, "looking for rows", error))? {
        None => Ok(()),
        Some(table) => Err(StorageError::new(
            StorageErrorKind::NotMigrated,
            format!(
                "database {}: its table {} has rows: name a path without a file, or move the file and its -wal away",
                path.display(),
                table.trim_matches('"')
            ),
        )),
    }
}

impl Side for SqliteTarget {
    fn count(&mut self, table: Table) -> Result<u64, StorageError> {
        count(self.conn(), &self.path, table)
    }

    fn read(&mut self, table: Table, take: &mut Take<'_>) -> Result<(), StorageError> {
        read(self.conn(), &self.path, table, take)
    }
}

impl Target for SqliteTarget {
    fn refusal(&self, _table: Table, _row: &[Value]) -> Option<String> {
        None
    }

    fn begin(&mut self, mark: &str, _oldest_attempt: Option<i64>) -> Result<(), StorageError> {
        self.empty(mark).map_err(self.failed("beginning the migration"))
    }

    fn write(&mut self, table: Table, rows: &[Row]) -> Result<(), StorageError> {
        self.write_rows(table, rows).map_err(self.failed("writing rows"))
    }

    fn complete(&mut self, counters: &Counters, _derived: &mut dyn FnMut(u64)) -> Result<(), StorageError> {
        let failed = self.failed("completing the migration");
        pause_file::record(&self.path, counters.pause)?;
        set_synchronous(self.conn(), Synchronous::Full).map_err(&failed)?;
        self.derive(counters).map_err(failed)?;
        checkpoint::run(self.conn(), &self.path, CheckpointMode::Truncate).map(drop)
    }
}
