//! The store in PostgreSQL. `postgres/absent.rs` has the same functions for programs without it.

use std::{path::Path, sync::Arc};

use orchestrator_queue_postgres::{InstanceConfig, PostgresQueue, creation};
use orchestrator_queue_rules::storage::StorageError;
use orchestrator_queue_store::Store;

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

    /// The same schema in the database whose address is in `file`.
    pub(crate) fn on_postgres(&self, file: &Path) -> Result<Arc<dyn Store>, StorageError> {
        let mut instance = self.instance();
        instance.postgres.dsn_file = Some(file.to_owned());
        Ok(Arc::new(PostgresQueue::new(instance)))
    }
}
