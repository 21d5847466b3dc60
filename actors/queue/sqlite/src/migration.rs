//! A SQLite file as a side of a migration.

mod source;
mod sql;
mod target;

pub use self::{source::SqliteSource, target::SqliteTarget};

use super::error::storage_error;
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_queue_store::migration::{BATCH_BYTES, BATCH_ROWS, Kind, Row, Table, Take, Value};
use rusqlite::Connection;
use rusqlite::types::{ToSql, ToSqlOutput};
use std::path::Path;

/// SQLite's page cache, in bytes: a run lists paths in another order than the index of paths.
const CACHE_BYTES: i64 = 32 << 20;

/// Value as a parameter of a statement.
struct Param<'a>(&'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self.0 {
            Value::Null => Ok(ToSqlOutput::from(rusqlite::types::Null)),
            Value::Integer(number) => number.to_sql(),
            Value::Text(text) => text.to_sql(),
        }
    }
}

/// Counts the rows of a table.
fn count(conn: &Connection, path: &Path, table: Table) -> Result<u64, StorageError> {
    let sql = format!("SELECT count(*) FROM {}", sql::stored_in(table));
    conn.query_row(&sql, [], |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
        .map_err(|error| storage_error(path, "counting rows", error))
}

/// Passes the rows to `take`, in batches.
fn read(conn: &Connection, path: &Path, table: Table, take: &mut Take<'_>) -> Result<(), StorageError> {
    let failed = |error| storage_error(path, "reading rows", error);
    let mut statement = conn.prepare(&sql::select(table)).map_err(failed)?;
    let mut found = statement.query([]).map_err(failed)?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next().map_err(failed)? {
        let row = values(table, row).map_err(failed)?;
        bytes += row.iter().map(Value::text_bytes).sum::<usize>();
        rows.push(row);
        if rows.len() == BATCH_ROWS || bytes >= BATCH_BYTES {
            take(std::mem::take(&mut rows))?;
            bytes = 0;
        }
    }
    if rows.is_empty() { Ok(()) } else { take(rows) }
}

fn values(table: Table, row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    let column = |(at, (_, kind)): (usize, &(&str, Kind))| {
        Ok(match kind {
            Kind::Integer => row.get::<_, Option<i64>>(at)?.map_or(Value::Null, Value::Integer),
            Kind::Text => row.get::<_, Option<String>>(at)?.map_or(Value::Null, Value::Text),
        })
    };
    table.columns().iter().enumerate().map(column).collect()
}
