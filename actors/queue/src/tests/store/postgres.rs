//! Stores in the shared PostgreSQL server of this process.

use std::sync::OnceLock;

use orchestrator_harness::{Postgres, wait_for};
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_subsystem::Address;
use orchestrator_supervise::StopToken;

use orchestrator_queue_postgres::{AddedKeys, OwnIncarnation, PostgresConfig, PostgresStore, Settings};

pub(crate) fn try_place(settings: &Settings) -> Result<PostgresStore, StorageError> {
    try_told(settings, AddedKeys::default())
}

/// Opens a store that is told what other instances add.
pub(crate) fn try_told(settings: &Settings, added: AddedKeys) -> Result<PostgresStore, StorageError> {
    PostgresStore::open(settings.clone(), &OwnIncarnation::default(), added, StopToken::new())
}

/// Opens a store as soon as the server has seen the end of the former session of the instance.
pub(crate) fn place_of(settings: &Settings) -> PostgresStore {
    wait_for("the place", || match try_place(settings) {
        Err(error) if error.text.contains("OQ002") => None,
        opened => Some(opened.unwrap()),
    })
}

/// Database that the tests of this process share, each with a schema of its own.
pub(crate) fn database() -> &'static str {
    static DATABASE: OnceLock<String> = OnceLock::new();
    DATABASE.get_or_init(|| Postgres::shared().create_database("queue"))
}

/// Configuration of one instance of the queue in `schema`.
pub(crate) fn configured(dsn: &str, schema: &str, instance: &str) -> PostgresConfig {
    PostgresConfig {
        dsn: Address::new(dsn),
        schema: schema.to_owned(),
        instance: Some(instance.to_owned()),
        ..PostgresConfig::default()
    }
}
