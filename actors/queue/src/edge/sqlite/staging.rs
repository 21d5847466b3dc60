//! Very long payloads on their way into the queue, in a temporary file of SQLite's.
//!
//! To store a text SQLite needs it twice in memory, bound and as a record. A third copy on our side, kept should the
//! group have to be tried again, would be too much (contract: R16): so the text is written piece by piece into a temporary
//! table first, which outlives a rollback of the group and ends with the connection, and our copy is given back.

use crate::storage::{Entry, Place};
use rusqlite::{Connection, params};
use std::io::Write;

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

/// Inserts the row of a staged payload, or puts the payload in the place of that of the row that is there; gives the
/// number of rows inserted. One statement for both: a scalar subquery would copy the text once more.
pub(super) fn store(conn: &Connection, place: &Place, attr_path: &str, id: i64) -> rusqlite::Result<usize> {
    let key = params![place.run_started, place.fetcher_id, attr_path];
    let sql = "SELECT EXISTS (SELECT 1 FROM queue
               WHERE fetcher_run_started = ?1 AND fetcher_id = ?2 AND attr_path = ?3)";
    let exists: bool = conn.query_row(sql, key, |row| row.get(0))?;
    let sql = "INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, last_started, order_jitter)
               SELECT ?1, ?2, ?3, CAST(payload AS TEXT), ?5, ?6 FROM temp.orchestrator_staged WHERE id = ?4
               ON CONFLICT (fetcher_run_started, fetcher_id, attr_path) DO UPDATE SET payload = excluded.payload";
    let Place { fetcher_id, run_started, last_started, order_jitter, .. } = place;
    conn.execute(sql, params![fetcher_id, run_started, attr_path, id, last_started, order_jitter])?;
    Ok(usize::from(!exists))
}
