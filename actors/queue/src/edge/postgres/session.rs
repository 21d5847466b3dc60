//! Session of the store: settings, and the tables that it needs.

use std::time::Duration;

use orchestrator_edge::postgres::{Address, Row, Session, SessionSettings, types::FromSql};

use crate::storage::StorageError;

/// Tables and functions, created in the schema that the session has as its only one.
const SCHEMA: &str = include_str!("schema.sql");
/// Version of [`SCHEMA`].
const VERSION: i64 = 1;
/// Session of the store. A transaction that this process leaves open, because it is suspended, would keep its locks: the server ends it.
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
pub(super) const AT: &str = "coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()))::bigint)";

/// Query for the state of a migration that is not complete.
pub(super) const UNFINISHED: &str = "SELECT value FROM property WHERE name = 'migration'";

/// Connects, and creates the tables if there are none.
pub(super) async fn open(address: &Address, schema: &str) -> Result<Session, StorageError> {
    let mut session = Session::open(address, &SESSION).await?;
    create(&mut session, schema).await?;
    Ok(session)
}

/// Selects the schema. Creates it and its tables unless they exist; instances that start at the same time create them once.
pub(super) async fn create(session: &mut Session, schema: &str) -> Result<(), StorageError> {
    const ACTION: &str = "creating the tables";
    let begin =
        format!("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('orchestrator queue/{schema}', 0));");
    session.batch(ACTION, &begin).await?;
    let known = session
        .query(
            ACTION,
            "SELECT 1::bigint FROM pg_namespace WHERE nspname = $1",
            vec![Box::new(schema.to_owned())],
        )
        .await?;
    if known.is_empty() {
        // A role that only owns the schema may not create one.
        session.batch(ACTION, &format!("CREATE SCHEMA {schema}")).await?;
    }
    session.batch(ACTION, &format!("SET search_path = {schema}")).await?;
    let known = session.query(ACTION, "SELECT to_regclass('property') IS NOT NULL", vec![]).await?;
    if first(&known) != Some(true) {
        session.batch(ACTION, SCHEMA).await?;
        session.batch(ACTION, &first_rows()).await?;
    }
    session.batch(ACTION, "COMMIT").await?;
    check_version(session, schema).await
}

/// Checks that this program knows the tables of the schema, which the session has selected.
pub(super) async fn check_version(session: &mut Session, schema: &str) -> Result<(), StorageError> {
    let version = session
        .query("reading the version", "SELECT value::bigint FROM property WHERE name = 'version'", vec![])
        .await?;
    match first(&version) {
        Some(found) if found > VERSION => {
            Err(StorageError::NewerTables { schema: schema.to_owned(), found, known: VERSION })
        }
        _ => Ok(()),
    }
}

/// Returns the statements that create the schema and its tables at the first start, in one transaction.
pub(crate) fn creation(schema: &str) -> String {
    format!(
        "BEGIN;\nCREATE SCHEMA IF NOT EXISTS {schema};\nSET LOCAL search_path = {schema};\n\n{SCHEMA}\n{}\nCOMMIT;\n",
        first_rows()
    )
}

/// Returns the statements behind [`SCHEMA`].
///
/// Numbers of failures do not repeat those of a database that this one replaces: there are fewer failures than microseconds.
fn first_rows() -> String {
    format!(
        "INSERT INTO property VALUES ('version', '{VERSION}');
SELECT setval('failure_number', floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);"
    )
}

/// Returns the first column of the first row.
pub(super) fn first<T: for<'a> FromSql<'a>>(rows: &[Row]) -> Option<T> {
    rows.first().and_then(|row| row.get::<_, Option<T>>(0))
}

/// State of the store's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transaction {
    None,
    /// The first statement begins it.
    Asked,
    Begun,
}
