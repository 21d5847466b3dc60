//! Very long payloads on their way into the queue, in a temporary file of SQLite's.
//!
//! To store a text SQLite needs it twice in memory, bound and as a record. A third copy on our side, kept should the
//! group have to be tried again, would be too much (CONTRACT QR16): so the text is written piece by piece into a temporary
//! table first, which outlives a rollback of the group and ends with the connection, and our copy is given back.

use crate::storage::{Entry, Place};
use rusqlite::Connection;
use rusqlite::types::Type;
use std::io::{Read, Write};

/// Payloads of so many bytes are staged.
const STAGED_BYTES_MIN: usize = 8 << 20;
/// Bytes written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Stages the payloads that are long; those staged before are given up.
pub(super) fn stage(conn: &mut Connection, entries: &mut [Entry]) -> rusqlite::Result<()> {
    if !entries.iter().any(is_long) {
        return Ok(());
    }
    // In a file, and not in memory as would be the default.
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

/// Runs `insert` or `replace`, whose parameters are numbered as in ingest, with a staged payload; gives the number of
/// rows changed. Our copy is given back before SQLite makes its second one.
pub(super) fn execute(
    conn: &Connection,
    sql: &str,
    place: &Place,
    attr_path: &str,
    id: i64,
) -> rusqlite::Result<usize> {
    let mut statement = conn.prepare(sql)?;
    statement.raw_bind_parameter(1, place.fetcher_id)?;
    statement.raw_bind_parameter(2, place.run_started)?;
    statement.raw_bind_parameter(3, attr_path)?;
    statement.raw_bind_parameter(4, read(conn, id)?)?;
    if statement.parameter_count() > 4 {
        statement.raw_bind_parameter(5, place.last_started)?;
        statement.raw_bind_parameter(6, place.order_jitter)?;
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
