//! A schema that is written.

use orchestrator_edge::postgres::{Address, Params};
use orchestrator_queue_rules::storage::{HandoutSettings, Limits, StorageError};
use orchestrator_queue_store::migration::{Counters, Kind, Row, Side, Table, Take, Target, Value};

use super::{
    super::{
        session::{first, get},
        texts::{ATTR_PATH_BYTES_MAX, is_storable},
    },
    Connection, sql,
};

/// Number of rows whose paths are made ready by one statement.
const READY_ROWS: i64 = 4_000;

/// Schema without rows, or with those of an unfinished migration.
pub struct PostgresTarget {
    connection: Connection,
    /// Transaction with the lock of the migration.
    _lock: Connection,
    instance: String,
    handouts: HandoutSettings,
}

impl PostgresTarget {
    /// Connects, and creates the tables in `schema` if there are none. The queue's fetchers will belong to
    /// `instance`. `handouts` are those of the configuration.
    ///
    /// # Errors
    /// `StorageErrorKind::NotMigrated` if an instance or another migration uses the schema, or it has rows;
    /// `StorageErrorKind::NewerSchema`, errors of the server.
    pub fn open(
        address: &Address,
        schema: &str,
        instance: String,
        handouts: HandoutSettings,
    ) -> Result<Self, StorageError> {
        const ACTION: &str = "opening the target";
        let mut connection = Connection::open(address, schema)?;
        connection.create_tables()?;
        // A role without rights on the tables could hold an advisory lock. Waits, since the session of a
        // process that was killed may be at its last statement.
        let mut lock = Connection::open(address, schema)?;
        let sql = format!("BEGIN; LOCK TABLE {schema}.property IN SHARE UPDATE EXCLUSIVE MODE");
        if let Err(error) = lock.batch(ACTION, &sql) {
            return Err(connection.refused(&format!("is in use by another migration ({error})")));
        }
        if connection.mark()?.is_none() {
            connection.refuse_live()?;
            refuse_rows(&mut connection)?;
        }
        // The first start computes the classes of all jobs if it has limits.
        Ok(Self {
            connection,
            _lock: lock,
            instance,
            handouts: HandoutSettings { limits: Limits::default(), ..handouts },
        })
    }

    /// Adds the paths that wait to `ready`.
    fn make_ready(&mut self, derived: &mut dyn FnMut(u64)) -> Result<(), StorageError> {
        let (mut after, mut done) = (String::new(), 0);
        loop {
            let next =
                "SELECT coalesce(array_agg(DISTINCT n.attr_path), '{}'), count(*), max(n.attr_path) FROM (
                 SELECT attr_path FROM listing WHERE attr_path > $1 ORDER BY attr_path LIMIT $2) AS n";
            let found = self.connection.query(
                "reading the rows",
                next,
                vec![Box::new(after.clone()), Box::new(READY_ROWS)],
            )?;
            let Some(row) = found.first() else { return Ok(()) };
            let (paths, rows, last): (Vec<String>, i64, Option<String>) =
                (get(row, 0)?, get(row, 1)?, get(row, 2)?);
            let Some(last) = last else { return Ok(()) };
            self.connection.query("making jobs ready", "SELECT make_ready($1)", vec![Box::new(paths)])?;
            after = last;
            done += rows.unsigned_abs();
            derived(done);
        }
    }
}

/// Checks that the schema has no rows of a queue.
fn refuse_rows(connection: &mut Connection) -> Result<(), StorageError> {
    let tables = Table::ALL.map(sql::stored_in);
    let found = tables.map(|table| format!("(EXISTS (SELECT 1 FROM {table}), '{table}')")).join(", ");
    let sql = format!("SELECT name FROM (VALUES {found}) AS t (has_rows, name) WHERE has_rows");
    match first::<String>(&connection.query("looking for rows", sql, vec![])?)? {
        None => Ok(()),
        Some(table) => Err(connection.refused(&format!(
            "has rows in {table}: name another one with --set queue.postgres.schema=NAME, or drop it"
        ))),
    }
}

impl Side for PostgresTarget {
    fn count(&mut self, table: Table) -> Result<u64, StorageError> {
        self.connection.count(table)
    }

    fn read(&mut self, table: Table, take: &mut Take<'_>) -> Result<(), StorageError> {
        self.connection.read(table, take)
    }
}

impl Target for PostgresTarget {
    fn refusal(&self, table: Table, row: &[Value]) -> Option<String> {
        let columns = table.columns().iter().zip(row);
        for ((name, _), value) in columns {
            match value {
                Value::Text(path) if *name == "attr_path" && path.len() > ATTR_PATH_BYTES_MAX => {
                    let start: String = path.chars().take(60).collect();
                    return Some(format!(
                        "an attribute path of {} bytes, more than {ATTR_PATH_BYTES_MAX} ({start}..)",
                        path.len()
                    ));
                }
                Value::Text(text) if !is_storable("", text) => return Some(format!("U+0000 in {name}")),
                Value::Integer(number) if *name == "order_jitter" && i32::try_from(*number).is_err() => {
                    return Some(format!("{name} = {number}"));
                }
                _ => {}
            }
        }
        None
    }

    fn begin(&mut self, mark: &str, oldest_attempt: Option<i64>) -> Result<(), StorageError> {
        const ACTION: &str = "beginning the migration";
        self.connection.batch(ACTION, "BEGIN; LOCK TABLE instance IN EXCLUSIVE MODE")?;
        // An instance may have come meanwhile.
        self.connection.refuse_live()?;
        match self.connection.mark()? {
            None => refuse_rows(&mut self.connection)?,
            Some(_) => {
                let tables = Table::ALL.map(sql::stored_in).join(", ");
                self.connection.batch(ACTION, &format!("TRUNCATE payload, {tables}"))?;
            }
        }
        let oldest = oldest_attempt.map_or(i64::MAX, |started| started.max(0) / DAY_SECS * DAY_SECS);
        let begin = format!(
            include_str!("../sql/migration/begin.sql"),
            schema = self.connection.schema,
            instance = self.instance,
            oldest = oldest,
            day_secs = DAY_SECS,
            max = i64::MAX
        );
        self.connection.batch(ACTION, &begin)?;
        let sql = "INSERT INTO property VALUES ('migration', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.connection.query(ACTION, sql, vec![Box::new(mark.to_owned())])?;
        self.connection.batch(ACTION, "COMMIT")
    }

    fn write(&mut self, table: Table, rows: &[Row]) -> Result<(), StorageError> {
        let mut params: Params<'_> = Vec::with_capacity(table.columns().len());
        for (at, (_, kind)) in table.columns().iter().enumerate() {
            let values = rows.iter().map(|row| &row[at]);
            match kind {
                Kind::Integer => params.push(Box::new(
                    values
                        .map(|value| match value {
                            Value::Integer(number) => Some(*number),
                            Value::Null | Value::Text(_) => None,
                        })
                        .collect::<Vec<_>>(),
                )),
                Kind::Text => params.push(Box::new(
                    values
                        .map(|value| match value {
                            Value::Text(text) => Some(text.as_str()),
                            Value::Null | Value::Integer(_) => None,
                        })
                        .collect::<Vec<_>>(),
                )),
            }
        }
        self.connection.query("writing rows", sql::insert(table, &self.instance), params).map(drop)
    }

    fn complete(&mut self, counters: &Counters, derived: &mut dyn FnMut(u64)) -> Result<(), StorageError> {
        const ACTION: &str = "completing the migration";
        let tables = Table::ALL.map(sql::stored_in).join(", ");
        self.connection.batch(ACTION, &format!("ANALYZE payload, {tables}"))?;
        self.connection.batch(ACTION, "BEGIN; SET LOCAL synchronous_commit = on")?;
        let complete = format!(
            include_str!("../sql/migration/complete.sql"),
            instance = self.instance,
            first = sql::FIRST_HANDOUT,
            incarnation = counters.incarnation,
            fetcher = counters.fetcher.max(1)
        );
        self.connection.batch(ACTION, &complete)?;
        self.make_ready(derived)?;
        self.connection.batch(ACTION, "ANALYZE ready")?;
        let rules = serde_json::to_string(&self.handouts).unwrap_or_default();
        let pause =
            counters.pause.map(|pause| pause.until_ms.map(|until| until.to_string()).unwrap_or_default());
        let set = "INSERT INTO property SELECT name, value FROM (VALUES ('rules', $1), ('paused', $2)) AS p (name, value)
             WHERE value IS NOT NULL ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.connection.query(
            ACTION,
            "DELETE FROM property WHERE name IN ('migration', 'paused')",
            vec![],
        )?;
        self.connection.query(ACTION, set, vec![Box::new(rules), Box::new(pause)])?;
        self.connection.batch(ACTION, "COMMIT")
    }
}

/// Length of a day of partitions, in seconds.
const DAY_SECS: i64 = 86_400;
