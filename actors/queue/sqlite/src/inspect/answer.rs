//! Answers to the questions that both stores have, and parts of others.

use orchestrator_queue_rules::storage::{ANSWER_BYTES_MAX, PAYLOAD_CHARS_MAX};
use orchestrator_queue_store::{
    migration::Value,
    questions::{Param, Query},
};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Error, Row, ToSql, params_from_iter};

/// Views for questions of both stores.
pub(super) const VIEWS: &str = include_str!("../sql/views.sql");

/// Rows of the answer.
pub(super) fn answer<T>(conn: &Connection, query: &Query<T>) -> rusqlite::Result<Vec<T>> {
    let mut statement = conn.prepare(&query.sql(VIEWS).replace('$', "?"))?;
    let columns = statement.column_count();
    let mut found = statement.query(params_from_iter(query.params.iter().map(Bound)))?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let values = (0..columns).map(|column| value(row, column)).collect::<rusqlite::Result<Vec<_>>>()?;
        bytes += query.bytes(&values);
        if bytes > ANSWER_BYTES_MAX {
            break;
        }
        rows.push(query.read(values).map_err(|mismatch| Error::UserFunctionError(mismatch.into()))?);
    }
    Ok(rows)
}

/// The row of an answer that has one.
pub(super) fn single<T>(conn: &Connection, query: &Query<T>) -> rusqlite::Result<T> {
    answer(conn, query)?.pop().ok_or(Error::QueryReturnedNoRows)
}

fn value(row: &Row<'_>, column: usize) -> rusqlite::Result<Value> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        // An error unless it is a text.
        _ => Value::Text(row.get(column)?),
    })
}

/// Parameter of a statement.
struct Bound<'a>(&'a Param);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self.0 {
            Param::Integer(number) => number.to_sql(),
            Param::Text(text) => text.to_sql(),
        }
    }
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
