//! A schema that is read.

use orchestrator_edge::postgres::Address;
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_supervise::PauseSpan;

use super::{
    super::{
        schema::{check_version, version},
        session::{first, first_column},
    },
    Connection, sql,
};
use orchestrator_queue_store::migration::{Counters, Side, Source, Table, Take};

/// One transaction with one snapshot. It locks the instances, so that no process can change the queue.
pub struct PostgresSource(Connection);

impl PostgresSource {
    /// Connects to the queue in `schema`, and changes nothing in it.
    ///
    /// # Errors
    /// `StorageErrorKind::NotMigrated` if there is no queue, an instance uses it, or SQLite cannot have its
    /// fetchers; `StorageErrorKind::NewerSchema`, `StorageErrorKind::Unfinished`, errors of the server.
    pub fn open(address: &Address, schema: &str) -> Result<Self, StorageError> {
        const ACTION: &str = "opening the source";
        let mut source = Connection::open(address, schema)?;
        source.batch(ACTION, &format!("SET search_path = {schema}"))?;
        let version = source.runtime.block_on(version(&mut source.session))?;
        if version.is_none() {
            return Err(source.refused("has no queue"));
        }
        check_version(version, schema)?;
        // Whatever it is doing, a live instance is named.
        source.refuse_live()?;
        // The lock comes before the snapshot.
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE instance IN EXCLUSIVE MODE NOWAIT";
        if let Err(error) = source.batch(ACTION, begin) {
            return Err(source.refused(&format!("is in use: stop its instances ({error})")));
        }
        source.refuse_live()?;
        if let Some(mark) = source.mark()? {
            return Err(StorageError::unfinished(&format!("schema {schema}"), &mark));
        }
        let names: Vec<String> = first_column(&source.query(ACTION, sql::ambiguous_fetchers(), vec![])?)?;
        if !names.is_empty() {
            return Err(source.refused(&format!(
                "has jobs of several instances for {}, which a SQLite file cannot tell apart: end the jobs at all instances but one",
                names.join(", ")
            )));
        }
        Ok(Self(source))
    }
}

impl Side for PostgresSource {
    fn count(&mut self, table: Table) -> Result<u64, StorageError> {
        self.0.count(table)
    }

    fn read(&mut self, table: Table, take: &mut Take<'_>) -> Result<(), StorageError> {
        self.0.read(table, take)
    }
}

impl Source for PostgresSource {
    fn counters(&mut self) -> Result<Counters, StorageError> {
        const ACTION: &str = "reading the last numbers";
        // The functions of this program need not exist.
        let pause = "SELECT value FROM property WHERE name = 'paused'";
        let pause = first::<String>(&self.0.query(ACTION, pause, vec![])?)?;
        Ok(Counters {
            incarnation: self.0.number(ACTION, "SELECT last_value FROM incarnation_number")?,
            fetcher: self.0.number(
                ACTION,
                "SELECT greatest((SELECT max(fetcher_id) FROM fetcher),
                     pg_sequence_last_value(pg_get_serial_sequence('fetcher', 'fetcher_id')::regclass))",
            )?,
            pause: pause
                .map(|until| PauseSpan { until_ms: until.parse().ok() })
                .filter(|pause| !pause.is_over()),
        })
    }
}
