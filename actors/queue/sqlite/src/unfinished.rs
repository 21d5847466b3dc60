//! Mark of a migration into a database, which is no queue before the end of the migration.

use super::error::storage_error;
use super::schema::has_table;
use orchestrator_queue_rules::storage::StorageError;
use rusqlite::Connection;
use std::path::Path;

/// Table of the mark, one row. The migration removes it with its last transaction.
pub(super) const TABLE: &str = "orchestrator_migration";

/// Checks that no migration into the database is unfinished.
///
/// # Errors
/// `StorageErrorKind::Unfinished`.
pub(super) fn refuse(path: &Path, conn: &Connection) -> Result<(), StorageError> {
    let find = || -> rusqlite::Result<Option<String>> {
        if !has_table(conn, TABLE)? {
            return Ok(None);
        }
        conn.query_row(&format!("SELECT state FROM {TABLE}"), [], |row| row.get(0)).map(Some)
    };
    match find().map_err(|error| storage_error(path, "looking for a migration", error))? {
        None => Ok(()),
        Some(mark) => Err(StorageError::unfinished(&format!("database {}", path.display()), &mark)),
    }
}
