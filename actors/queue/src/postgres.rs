//! The store in PostgreSQL. `postgres/absent.rs` has the same functions for programs without it.

use std::{path::Path, sync::Arc};

use orchestrator_queue_postgres::{
    InstanceConfig, PostgresQueue, PostgresSource, PostgresTarget, address, creation, instance_name,
};
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_queue_store::{
    Store,
    migration::{Source, Target},
};

pub use orchestrator_queue_postgres::PostgresConfig;

use crate::config::{QueueConfig, StoreKind};

impl QueueConfig {
    pub(crate) fn instance(&self) -> InstanceConfig {
        InstanceConfig {
            postgres: self.postgres.clone(),
            handouts: self.handouts(),
            input_dir: self.input_dir.clone(),
            socket: self.socket.clone(),
        }
    }

    /// Returns mistakes of the section `[queue.postgres]`.
    pub(crate) fn check_postgres(&self) -> Vec<String> {
        self.postgres.check()
    }

    /// None if another store is configured.
    pub(crate) fn postgres_store(&self) -> Option<Arc<dyn Store>> {
        (self.store == StoreKind::Postgres).then(|| Arc::new(PostgresQueue::new(self.instance())) as _)
    }

    /// Returns the SQL that creates the tables.
    pub(crate) fn postgres_tables(&self) -> Result<String, StorageError> {
        Ok(creation(&self.postgres.schema))
    }

    /// Opens the schema in the database whose address is in `file`. `option` names the file in errors.
    pub(crate) fn postgres_source(&self, file: &Path, option: &str) -> Result<Box<dyn Source>, StorageError> {
        let address = address(file, &format!("{option} postgres"))?;
        Ok(Box::new(PostgresSource::open(&address, &self.postgres.schema)?))
    }

    /// As [`Self::postgres_source`]. The fetchers will belong to this instance.
    pub(crate) fn postgres_target(&self, file: &Path, option: &str) -> Result<Box<dyn Target>, StorageError> {
        let (address, config) = (address(file, &format!("{option} postgres"))?, self.instance());
        let instance = instance_name(&config)?;
        let target = PostgresTarget::open(&address, &self.postgres.schema, instance, config.handouts)?;
        Ok(Box::new(target))
    }
}
