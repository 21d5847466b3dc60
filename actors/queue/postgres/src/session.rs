//! Session of the store: settings, and columns of answers.

use std::{fmt, time::Duration};

use orchestrator_edge::postgres::{Address, Row, RowIndex, SessionSettings, types::FromSql};
use orchestrator_queue_rules::storage::StorageError;

use super::{error::altered, schema, server_session::Session};

/// Session of the store. A transaction that this process leaves open, because it is suspended, would keep its
/// locks: the server ends it.
const SESSION: SessionSettings = SessionSettings {
    sql: &[
        "SET timezone = 'UTC'; SET statement_timeout = '10s'; SET lock_timeout = '4s'; SET idle_in_transaction_session_timeout = '10s';",
        SessionSettings::PLANS_BY_INDEX,
        SessionSettings::DURABLE,
    ],
    connect_timeout: Duration::from_secs(5),
    answer_timeout: Duration::from_secs(15),
    row_max: 80 << 20,
    answer_max: 256 << 20,
};

/// Time of an operation: the argument, or the database's clock.
pub(super) const OPERATION_TIME_SQL: &str =
    "coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()))::bigint)";

/// Query for the state of a migration that is not complete.
pub(super) const UNFINISHED: &str = "SELECT value FROM property WHERE name = 'migration'";

/// Connects, and creates tables and functions unless they exist.
pub(super) async fn open(address: &Address, schema: &str) -> Result<Session, StorageError> {
    let mut session = Session::open(address, &SESSION).await?;
    schema::create(&mut session, schema).await?;
    Ok(session)
}

/// Reads a column.
///
/// # Errors
/// Its value has another type, or is an unexpected NULL.
pub(super) fn get<'a, T: FromSql<'a>>(
    row: &'a Row,
    column: impl RowIndex + fmt::Display,
) -> Result<T, StorageError> {
    row.try_get(column).map_err(altered)
}

/// Reads the first column of the first row.
pub(super) fn first<T: for<'a> FromSql<'a>>(rows: &[Row]) -> Result<Option<T>, StorageError> {
    rows.first().map_or(Ok(None), |row| get(row, 0))
}

/// Reads the value of a query that has one.
pub(super) fn single<T: for<'a> FromSql<'a>>(rows: &[Row]) -> Result<T, StorageError> {
    first(rows)?.ok_or_else(|| altered("an answer is empty"))
}

pub(super) fn first_column<T: for<'a> FromSql<'a>>(rows: &[Row]) -> Result<Vec<T>, StorageError> {
    rows.iter().map(|row| get(row, 0)).collect()
}

/// State of the store's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transaction {
    None,
    /// The first statement begins it.
    Asked,
    Begun,
}
