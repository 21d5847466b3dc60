//! Session of the store: settings, and the tables that it needs.

use std::{fmt, time::Duration};

use orchestrator_edge::postgres::{
    Address, Login, PostgresError, Row, RowIndex, SessionSettings, SqlState, types::FromSql,
};
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};

use super::{
    error::{altered, storage_error, unusable},
    functions::FUNCTIONS,
    server_session::Session,
};

/// Tables and functions, created in the schema that the session has as its only one.
const SCHEMA: &str = include_str!("schema.sql");
/// Version of the tables and functions. The tables of versions 1 and 2 are the same.
const VERSION: i64 = 2;
/// Drops functions of version 1 that [`FUNCTIONS`] has with other arguments or results.
const DROPPED: &str = "DROP FUNCTION IF EXISTS hand_out(text[], bigint, bigint, bigint, boolean, bigint[]), lock_slots(integer)";
/// Query for the names of the instances that a process has the place of, unless the place's lock is free.
const LIVE: &str = "SELECT string_agg(format('%s on host %s', instance, host), ', ' ORDER BY instance) FROM instance
     WHERE lease_until > clock_timestamp()
         AND NOT (is_locked AND pg_try_advisory_xact_lock(hashtextextended(current_schema() || '/' || instance, 0)))";
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
pub(super) const AT: &str = "coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()))::bigint)";

/// Query for the state of a migration that is not complete.
pub(super) const UNFINISHED: &str = "SELECT value FROM property WHERE name = 'migration'";

/// Connects, and creates the tables if there are none.
pub(super) async fn open(address: &Address, schema: &str) -> Result<Session, StorageError> {
    let mut session = Session::open(address, &SESSION).await?;
    create(&mut session, schema).await?;
    Ok(session)
}

/// Selects the schema. Creates it and its tables unless they exist, and replaces functions of an older
/// program.
///
/// No lock is taken that a role without rights on the tables could hold.
pub(super) async fn create(session: &mut Session, schema: &str) -> Result<(), StorageError> {
    session.0.check_encoding().await.map_err(storage_error)?;
    match create_unless_known(session, schema).await {
        Err(error) if error.source_as().is_some_and(is_denied) => {
            Err(denied(session, schema).await?.unwrap_or(error))
        }
        created => created,
    }
}

async fn create_unless_known(session: &mut Session, schema: &str) -> Result<(), StorageError> {
    session.batch("choosing the schema", &format!("SET search_path = {schema}")).await?;
    let mut found = version(session).await?;
    if found.is_none() {
        let created = create_tables(session, schema).await;
        if created.is_err() {
            session.batch("rolling back", "ROLLBACK").await?;
        }
        // Of instances that start at the same time, one creates the tables; the names are taken for the
        // others.
        found = version(session).await?;
        if found.is_none() {
            return created;
        }
    }
    check_version(found, schema)?;
    match found {
        Some(found) if found < VERSION => upgrade(session, schema, found).await,
        _ => Ok(()),
    }
}

/// Returns true if the role has no right, or not even that to see the schema.
fn is_denied(error: &PostgresError) -> bool {
    let denied = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::INVALID_SCHEMA_NAME];
    error.state.as_ref().is_some_and(|state| denied.contains(state))
}

/// Returns the error of a role without rights on a schema of another one, or on its tables; None if the
/// schema is not the reason.
async fn denied(session: &mut Session, schema: &str) -> Result<Option<StorageError>, StorageError> {
    let sql = include_str!("sql/schema_owner.sql");
    let rows = session.query("looking for the owner", sql, vec![Box::new(schema.to_owned())]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (owner, grant, role): (String, String, String) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
    let text = format!(
        "the schema {schema} belongs to the role {owner}, and {role} may not use it: {grant}, or name another schema in queue.postgres.schema"
    );
    Ok(Some(StorageError::new(StorageErrorKind::Denied { grant }, text)))
}

async fn create_tables(session: &mut Session, schema: &str) -> Result<(), StorageError> {
    const ACTION: &str = "creating the tables";
    session.batch(ACTION, "BEGIN").await?;
    let known = session
        .query(
            ACTION,
            "SELECT 1::bigint FROM pg_namespace WHERE nspname = $1",
            vec![Box::new(schema.to_owned())],
        )
        .await?;
    if known.is_empty() {
        // A role that only owns the schema may not create one.
        let created = session.0.batch(ACTION, &format!("CREATE SCHEMA {schema}")).await;
        let Login { role, database } = session.0.login();
        let grant = || {
            format!(
                "as the owner of the database or a superuser: GRANT CREATE ON DATABASE {database} TO {role}"
            )
        };
        created.map_err(|error| storage_error(error.with_grant(grant)))?;
    }
    for sql in [SCHEMA, FUNCTIONS, &first_rows(), "COMMIT"] {
        session.batch(ACTION, sql).await?;
    }
    Ok(())
}

/// Replaces the functions of version `found`. An instance of that version calls some that are gone
/// afterwards, so none may run.
async fn upgrade(session: &mut Session, schema: &str, found: i64) -> Result<(), StorageError> {
    const ACTION: &str = "replacing the functions of an older version, as only their owner may";
    let upgraded = async {
        // Waits for the transactions of all instances, and they for this one. Those that live are named
        // without a wait.
        for sql in ["BEGIN", "LOCK TABLE instance IN EXCLUSIVE MODE"] {
            session.batch(ACTION, sql).await?;
            let live = session.query(ACTION, LIVE, vec![]).await?;
            if let Some(instances) = first::<String>(&live)? {
                return Err(unusable(format!(
                    "the tables in the schema {schema} have version {found}, and instances of the former program use them: stop {instances}"
                )));
            }
        }
        let version = format!("UPDATE property SET value = '{VERSION}' WHERE name = 'version'; COMMIT");
        for sql in [DROPPED, FUNCTIONS, &version] {
            session.batch(ACTION, sql).await?;
        }
        Ok(())
    };
    let upgraded = upgraded.await;
    if upgraded.is_err() {
        session.batch("rolling back", "ROLLBACK").await?;
    }
    upgraded
}

/// None if the selected schema has no tables.
pub(super) async fn version(session: &mut Session) -> Result<Option<i64>, StorageError> {
    const ACTION: &str = "reading the version";
    let known = session.query(ACTION, "SELECT to_regclass('property') IS NOT NULL", vec![]).await?;
    if !single::<bool>(&known)? {
        return Ok(None);
    }
    let sql = "SELECT value::bigint FROM property WHERE name = 'version'";
    first(&session.query(ACTION, sql, vec![]).await?)
}

/// Checks that this program knows the tables of a schema by their version.
pub(super) fn check_version(version: Option<i64>, schema: &str) -> Result<(), StorageError> {
    match version {
        Some(found) if found > VERSION => {
            let text = format!(
                "the tables in the schema {schema} have version {found}, this program knows {VERSION}: run the newer program, or name another schema"
            );
            Err(StorageError::new(StorageErrorKind::NewerSchema, text))
        }
        _ => Ok(()),
    }
}

/// Statements of the first start, in one transaction.
pub(crate) fn creation(schema: &str) -> String {
    format!(
        "BEGIN;\nCREATE SCHEMA IF NOT EXISTS {schema};\nSET LOCAL search_path = {schema};\n\n{SCHEMA}\n{FUNCTIONS}\n{}\nCOMMIT;\n",
        first_rows()
    )
}

/// Returns the statements behind [`SCHEMA`] and [`FUNCTIONS`].
///
/// Numbers of failures do not repeat those of a database that this one replaces: there are fewer failures
/// than microseconds.
fn first_rows() -> String {
    format!(
        "INSERT INTO property VALUES ('version', '{VERSION}');
SELECT setval('failure_number', floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);"
    )
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
