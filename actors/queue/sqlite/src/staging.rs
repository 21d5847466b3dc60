//! Staging of very long payloads in a temporary file of SQLite.
//!
//! SQLite needs a text twice in memory, as bound value and as record. A third copy for a retry of
//! the transaction would take too much (CONTRACT QR16). Such a text is first written piece by piece
//! into a temporary table and dropped from memory. The table outlives a rollback and ends with the
//! connection.

use orchestrator_queue_rules::storage::{Entry, GroupPosition};
use rusqlite::Connection;
use rusqlite::types::Type;
use std::io::{Read, Write};

/// Minimum size of a staged payload, in bytes.
const STAGED_BYTES_MIN: usize = 8 << 20;
/// Number of bytes written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Stages the long payloads; drops those staged before.
pub(super) fn stage(conn: &mut Connection, entries: &mut [Entry]) -> rusqlite::Result<()> {
    if !entries.iter().any(is_long) {
        return Ok(());
    }
    // SQLite's default would be memory.
    conn.execute_batch(
        "DROP TABLE IF EXISTS temp.orchestrator_staged;
         PRAGMA temp_store = FILE;
         CREATE TEMP TABLE orchestrator_staged (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)",
    )?;
    for entry in entries.iter_mut().filter(|entry| is_long(entry)) {
        let tx = conn.transaction()?;
        let id = write(&tx, entry.payload.as_bytes())?;
        tx.commit()?;
        entry.staged = Some(id);
        entry.payload = String::new();
    }
    Ok(())
}

fn is_long(entry: &Entry) -> bool {
    entry.payload.len() >= STAGED_BYTES_MIN
}

fn write(conn: &Connection, payload: &[u8]) -> rusqlite::Result<i64> {
    let sql = "INSERT INTO temp.orchestrator_staged (payload) VALUES (zeroblob(?1))";
    conn.execute(sql, [i64::try_from(payload.len()).unwrap_or(i64::MAX)])?;
    let id = conn.last_insert_rowid();
    let mut blob = conn.blob_open("temp", "orchestrator_staged", "payload", id, false)?;
    for piece in payload.chunks(PIECE_BYTES) {
        blob.write_all(piece).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    }
    blob.close()?;
    Ok(id)
}

/// Runs ingest's `INSERT` or `REPLACE` with a staged payload and returns the number of changed
/// rows. The statement takes ownership of the payload, so that SQLite's second copy is the last
/// one.
pub(super) fn execute(
    conn: &Connection,
    sql: &str,
    position: &GroupPosition,
    attr_path: &str,
    id: i64,
) -> rusqlite::Result<usize> {
    let mut statement = conn.prepare(sql)?;
    statement.raw_bind_parameter(1, position.section.fetcher_id)?;
    statement.raw_bind_parameter(2, position.section.run_started)?;
    statement.raw_bind_parameter(3, attr_path)?;
    statement.raw_bind_parameter(4, read(conn, id)?)?;
    if statement.parameter_count() > 4 {
        statement.raw_bind_parameter(5, position.last_started)?;
        statement.raw_bind_parameter(6, position.order_jitter)?;
    }
    statement.raw_execute()
}

fn read(conn: &Connection, id: i64) -> rusqlite::Result<String> {
    let mut blob = conn.blob_open("temp", "orchestrator_staged", "payload", id, true)?;
    let mut payload = String::with_capacity(blob.len());
    blob.read_to_string(&mut payload)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, error.into()))?;
    Ok(payload)
}
