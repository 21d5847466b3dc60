//! Tables and functions of a queue.
//!
//! Numbered migrations change the tables, each in the transaction that records it. A migration only adds: the
//! former program goes on beside this one, and comes back if this one is given up. What it needs is removed
//! by a later program. The functions of each program have a schema of their own.

use orchestrator_edge::postgres::{PostgresError, SqlState};
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};

use super::{
    error::{storage_error, unusable},
    functions::{Functions, search_path},
    server_session::Session,
    session::{first, first_column, get, single},
};

/// Migrations with their numbers, run in the schema of the tables. The second one makes the table of the
/// numbers.
const MIGRATIONS: [(i32, &str); 2] = [
    (1, include_str!("sql/migrations/0001_tables.sql")),
    (2, include_str!("sql/migrations/0002_function_schemas.sql")),
];
/// Version of new tables, which a program that knows a smaller one refuses. Those of 1 and 2 have their
/// functions in the schema of the tables. Tables that such a program has made keep their version.
const VERSION: i64 = 3;
/// Least major version of the server: that which tells since when a session waits for a lock.
const LEAST_SERVER: i32 = 14;

/// Selects the schema, and brings its tables and functions up to date.
///
/// No lock is taken that a role without rights on the tables could hold.
pub(super) async fn create(session: &mut Session, schema: &str) -> Result<(), StorageError> {
    session.0.check_version(LEAST_SERVER).await.map_err(storage_error)?;
    session.0.check_encoding().await.map_err(storage_error)?;
    explained(session, schema, true).await
}

/// As [`create`], unless the schema has no tables.
pub(super) async fn select(session: &mut Session, schema: &str) -> Result<(), StorageError> {
    explained(session, schema, false).await
}

async fn explained(session: &mut Session, schema: &str, creates: bool) -> Result<(), StorageError> {
    match bring_up_to_date(session, schema, creates).await {
        Err(error) if error.source_as().is_some_and(is_denied) => {
            Err(denied(session, schema).await?.unwrap_or(error))
        }
        done => done,
    }
}

async fn bring_up_to_date(session: &mut Session, schema: &str, creates: bool) -> Result<(), StorageError> {
    let functions = Functions::of(schema);
    // Without the schema of functions, since anybody may have made one of its name.
    session.batch("choosing the schema", &format!("SET search_path = {schema}")).await?;
    let mut found = version(session).await?;
    if found.is_none() && creates {
        let created = change(session, schema, &functions, false).await;
        // Of instances that start at the same time, one creates the tables; the names are taken for the
        // others.
        found = version(session).await?;
        if found.is_none() {
            return created;
        }
    }
    if found.is_none() {
        return Ok(());
    }
    check_version(found, schema)?;
    if !is_current(session, &functions).await? {
        change(session, schema, &functions, true).await?;
    }
    session.batch("choosing the schemas", &search_path(schema)).await
}

/// Returns true if the role has no right, unless a statement is known that helps, or not even that to see the
/// schema.
fn is_denied(error: &PostgresError) -> bool {
    match &error.state {
        Some(state) if *state == SqlState::INSUFFICIENT_PRIVILEGE => error.peer.advice.is_none(),
        state => *state == Some(SqlState::INVALID_SCHEMA_NAME),
    }
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

/// Returns true if nothing is to be done.
async fn is_current(session: &mut Session, functions: &Functions) -> Result<bool, StorageError> {
    const ACTION: &str = "reading the migrations";
    if applied(session).await?.len() < MIGRATIONS.len() {
        return Ok(false);
    }
    let rows = session
        .query(ACTION, include_str!("sql/functions_found.sql"), vec![Box::new(functions.schema.clone())])
        .await?;
    let Some(row) = rows.first() else { return Ok(false) };
    let (count, is_owned): (i64, bool) = (get(row, 0)?, get(row, 1)?);
    if !is_owned {
        return Err(unusable(format!(
            "the schema {} belongs to another role than the tables: drop it, or give it to their owner",
            functions.schema
        )));
    }
    Ok(usize::try_from(count) == Ok(functions.count))
}

/// Numbers of the migrations that are recorded.
async fn applied(session: &mut Session) -> Result<Vec<i32>, StorageError> {
    const ACTION: &str = "reading the migrations";
    let known = session.query(ACTION, "SELECT to_regclass('schema_migration') IS NOT NULL", vec![]).await?;
    if !single::<bool>(&known)? {
        return Ok(Vec::new());
    }
    first_column(&session.query(ACTION, "SELECT number FROM schema_migration", vec![]).await?)
}

/// Applies the migrations that are missing and creates the functions, in one transaction.
async fn change(
    session: &mut Session,
    schema: &str,
    functions: &Functions,
    has_tables: bool,
) -> Result<(), StorageError> {
    let changed = change_in_transaction(session, schema, functions, has_tables).await;
    if changed.is_err() {
        session.batch("rolling back", "ROLLBACK").await?;
    }
    changed
}

async fn change_in_transaction(
    session: &mut Session,
    schema: &str,
    functions: &Functions,
    has_tables: bool,
) -> Result<(), StorageError> {
    let action =
        if has_tables { "adding to the tables, as only their owner may" } else { "creating the tables" };
    let rows = session.query(action, "SELECT quote_ident(current_user)", vec![]).await?;
    let role: String = single(&rows)?;
    session.batch(action, "BEGIN").await?;
    let (mut known, mut owner) = (Vec::new(), role.clone());
    if has_tables {
        // One instance at a time; no statement of hand-outs waits for it.
        session.batch(action, "LOCK TABLE property IN SHARE UPDATE EXCLUSIVE MODE").await?;
        known = applied(session).await?;
        if known.is_empty() {
            known.push(1);
        }
        let sql = "SELECT relowner::regrole::text FROM pg_class WHERE oid = 'property'::regclass";
        owner = single(&session.query(action, sql, vec![]).await?)?;
    } else {
        let database = session.0.login().database.clone();
        let grant = format!("GRANT CREATE ON DATABASE {database} TO {role}");
        create_schema(session, action, schema, "", &grant).await?;
    }
    // A member of the owner makes what other members may use.
    let (as_owner, as_itself, owned) = if owner == role {
        Default::default()
    } else {
        let as_owner = format!("SET LOCAL ROLE {owner}; ");
        (as_owner, "SET LOCAL ROLE NONE; ".to_owned(), format!(" AUTHORIZATION {owner}"))
    };
    session.batch(action, &format!("{as_owner}SET LOCAL search_path = {schema}")).await?;
    for (number, sql) in MIGRATIONS.into_iter().filter(|(number, _)| !known.contains(number)) {
        session.batch(action, &migration(number, sql)).await?;
    }
    // The role may have no right to create schemas, but for one that it is given.
    session.batch(action, &format!("{as_itself}SET LOCAL search_path = {schema}")).await?;
    let grant = format!("CREATE SCHEMA {} AUTHORIZATION {owner}", functions.schema);
    create_schema(session, action, &functions.schema, &owned, &grant).await?;
    let first_rows = if has_tables { String::new() } else { first_rows() };
    for sql in [&as_owner, &first_rows, &create_functions(schema, functions), "COMMIT"] {
        session.batch(action, sql).await?;
    }
    Ok(())
}

/// Creates a schema unless it exists. `owned` names an owner besides the role, and `grant` is the statement
/// that helps if the role may not create one.
async fn create_schema(
    session: &mut Session,
    action: &'static str,
    name: &str,
    owned: &str,
    grant: &str,
) -> Result<(), StorageError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
    if single(&session.query(action, sql, vec![Box::new(name.to_owned())]).await?)? {
        return Ok(());
    }
    let created = session.0.batch(action, &format!("CREATE SCHEMA {name}{owned}")).await;
    let grant = || format!("as the owner of the database or a superuser: {grant}");
    created.map_err(|error| storage_error(error.with_grant(grant)))
}

/// Statements of a migration, in the schema of the tables.
fn migration(number: i32, sql: &str) -> String {
    // The second one records the first one.
    let record = format!("INSERT INTO schema_migration (number) VALUES ({number});\n");
    format!("{sql}{}", if number == 1 { "" } else { &record })
}

/// Statements that create the functions in their schema.
fn create_functions(schema: &str, Functions { schema: own, sql, .. }: &Functions) -> String {
    format!(
        "SET LOCAL search_path = {own}, {schema};\n{sql}
INSERT INTO function_schema (name) VALUES ('{own}') ON CONFLICT (name) DO UPDATE SET used = clock_timestamp();\n"
    )
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
pub fn creation(schema: &str) -> String {
    let functions = Functions::of(schema);
    let own = &functions.schema;
    let migrations: String = MIGRATIONS.into_iter().map(|(number, sql)| migration(number, sql)).collect();
    format!(
        "BEGIN;\nCREATE SCHEMA IF NOT EXISTS {schema};\nCREATE SCHEMA IF NOT EXISTS {own};\nSET LOCAL search_path = {schema};\n\n{migrations}\n{}\n{}\nCOMMIT;\n",
        first_rows(),
        create_functions(schema, &functions)
    )
}

/// Returns the statements behind the migrations of new tables.
///
/// Numbers of failures do not repeat those of a database that this one replaces: there are fewer failures
/// than microseconds.
fn first_rows() -> String {
    format!(
        "INSERT INTO property VALUES ('version', '{VERSION}');
SELECT setval('failure_number', floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);"
    )
}
