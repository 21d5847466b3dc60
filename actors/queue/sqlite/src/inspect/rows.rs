//! Rows and totals of answers, and their limits.

use orchestrator_queue_rules::storage::Counts;
use rusqlite::{Connection, Row, Rows};

pub(super) const IS_NEWEST: &str = include_str!("../sql/inspect/is_newest.sql");
/// Maximum size of the texts in an answer, in bytes. Rows beyond it are left out.
pub(super) const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a payload in an answer, in characters.
const PAYLOAD_CHARS_MAX: usize = 500;

/// Scans indexes of all rows.
pub(super) fn counts(conn: &Connection) -> rusqlite::Result<Counts> {
    Ok(Counts {
        rows: count(conn, "SELECT count(*) FROM queue")?,
        ready: count(conn, "SELECT count(*) FROM orchestrator_ready")?,
        held: count(conn, "SELECT count(*) FROM orchestrator_ready WHERE is_held")?,
        logged: count(conn, "SELECT count(*) FROM log")?,
        in_flight: count(conn, "SELECT count(*) FROM log WHERE finished IS NULL")?,
    })
}

pub(super) fn count(conn: &Connection, sql: &str) -> rusqlite::Result<u64> {
    conn.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

pub(super) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Does not read the rest of the payload.
pub(super) fn payload_start(conn: &Connection, rowid: i64) -> rusqlite::Result<String> {
    let payload = conn.blob_open("main", "queue", "payload", rowid, true)?;
    let mut bytes = vec![0; payload.len().min(4 * PAYLOAD_CHARS_MAX)];
    payload.read_at_exact(&mut bytes, 0)?;
    let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    Ok(text.chars().take(PAYLOAD_CHARS_MAX).collect())
}

/// Reads rows until their sizes, in bytes, exceed `bytes_max`.
pub(super) fn collect_within<T>(
    bytes_max: usize,
    mut rows: Rows<'_>,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    size: impl Fn(&T) -> usize,
) -> rusqlite::Result<Vec<T>> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let one = read(row)?;
        bytes += size(&one);
        if bytes > bytes_max {
            break;
        }
        found.push(one);
    }
    Ok(found)
}
