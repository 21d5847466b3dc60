//! A schema of PostgreSQL as a side of a migration.

mod source;
mod sql;
mod target;

pub use self::{source::PostgresSource, target::PostgresTarget};

use std::{borrow::Cow, time::Duration};

use orchestrator_edge::postgres::{Address, Params, Row as ServerRow, SessionSettings, types::ToSql};
use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use tokio::runtime::Runtime;

use super::{
    schema,
    server_session::Session,
    session::{self, first, first_column, get, single},
    settings::runtime,
};
use orchestrator_queue_store::migration::{Kind, Row, Table, Take, Value};

/// Session of a migration: batches by keys, so that nested loops over indexes are right. Only the last
/// transaction is synced at once.
const SESSION: SessionSettings = SessionSettings {
    sql: &[
        "SET timezone = 'UTC'; SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '15s';
         SET synchronous_commit = off;",
        SessionSettings::PLANS_BY_INDEX,
    ],
    connect_timeout: Duration::from_secs(10),
    answer_timeout: Duration::from_secs(1_800),
    row_max: 80 << 20,
    answer_max: 256 << 20,
};

/// One session, and the runtime that drives it.
struct Connection {
    runtime: Runtime,
    session: Session,
    schema: String,
}

impl Connection {
    /// Connects. The tables need not exist.
    fn open(address: &Address, schema: &str) -> Result<Self, StorageError> {
        let runtime = runtime()?;
        let session = runtime.block_on(Session::open(address, &SESSION))?;
        Ok(Self { runtime, session, schema: schema.to_owned() })
    }

    fn create_tables(&mut self) -> Result<(), StorageError> {
        self.runtime.block_on(schema::create(&mut self.session, &self.schema))
    }

    fn batch(&mut self, action: &str, sql: &str) -> Result<(), StorageError> {
        self.runtime.block_on(self.session.batch(action, sql))
    }

    fn query(
        &mut self,
        action: &str,
        sql: impl Into<Cow<'static, str>>,
        params: Params<'_>,
    ) -> Result<Vec<ServerRow>, StorageError> {
        self.runtime.block_on(self.session.query(action, sql, params))
    }

    fn number(&mut self, action: &str, sql: &'static str) -> Result<i64, StorageError> {
        Ok(first(&self.query(action, sql, vec![])?)?.unwrap_or_default())
    }

    /// An instance is live while a process has its place. Each comes with its host.
    fn live_instances(&mut self) -> Result<Vec<String>, StorageError> {
        let sql = "SELECT instance || ' on host ' || host FROM instance WHERE lease_until > clock_timestamp()
             AND NOT (is_locked AND pg_try_advisory_xact_lock(hashtextextended($1 || '/' || instance, 0))) ORDER BY instance";
        let schema: Params<'_> = vec![Box::new(self.schema.clone())];
        first_column(&self.query("looking for instances", sql, schema)?)
    }

    /// Checks that no instance uses the schema.
    fn refuse_live(&mut self) -> Result<(), StorageError> {
        let live = self.live_instances()?;
        if live.is_empty() {
            return Ok(());
        }
        Err(self.refused(&format!("is in use by the instance {}: stop it", live.join(", "))))
    }

    fn refused(&self, reason: &str) -> StorageError {
        StorageError::new(StorageErrorKind::NotMigrated, format!("the schema {} {reason}", self.schema))
    }

    /// Mark of an unfinished migration.
    fn mark(&mut self) -> Result<Option<String>, StorageError> {
        first(&self.query("looking for a migration", session::UNFINISHED, vec![])?)
    }

    fn count(&mut self, table: Table) -> Result<u64, StorageError> {
        let rows =
            self.query("counting rows", format!("SELECT count(*) FROM {}", sql::stored_in(table)), vec![])?;
        single::<i64>(&rows).map(i64::unsigned_abs)
    }

    /// Passes the rows to `take`, in batches.
    fn read(&mut self, table: Table, take: &mut Take<'_>) -> Result<(), StorageError> {
        let (from_start, behind) = (sql::select(table, false), sql::select(table, true));
        let mut last: Option<Vec<Value>> = None;
        loop {
            let (sql, params) = match &last {
                None => (&from_start, vec![]),
                Some(key) => (&behind, key.iter().map(param).collect()),
            };
            let found = self.query("reading rows", sql.clone(), params)?;
            let rows = found.iter().map(|row| values(table, row)).collect::<Result<Vec<_>, _>>()?;
            let Some(row) = rows.last() else { return Ok(()) };
            last = Some(table.key_of(row));
            take(rows)?;
        }
    }
}

fn param(value: &Value) -> Box<dyn ToSql + Sync> {
    match value {
        Value::Null => Box::new(None::<i64>),
        Value::Integer(number) => Box::new(*number),
        Value::Text(text) => Box::new(text.clone()),
    }
}

fn values(table: Table, row: &ServerRow) -> Result<Row, StorageError> {
    let column = |(at, (_, kind)): (usize, &(&str, Kind))| {
        Ok(match kind {
            Kind::Integer => get::<Option<i64>>(row, at)?.map_or(Value::Null, Value::Integer),
            Kind::Text => get::<Option<String>>(row, at)?.map_or(Value::Null, Value::Text),
        })
    };
    table.columns().iter().enumerate().map(column).collect()
}
