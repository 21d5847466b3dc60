//! Stands for the store in PostgreSQL in programs that are built without it.

use std::{path::Path, sync::Arc};

use orchestrator_queue_rules::storage::{StorageError, StorageErrorKind};
use orchestrator_queue_store::Store;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{QueueConfig, StoreKind};

const ABSENT: &str = "this program is built without PostgreSQL: use one with the feature queue-postgres";

/// Section `[queue.postgres]`, without keys.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostgresConfig {}

impl QueueConfig {
    /// Refuses the store.
    pub(crate) fn check_postgres(&self) -> Vec<String> {
        let is_configured = self.store == StoreKind::Postgres;
        is_configured.then(|| format!("queue.store = postgres: {ABSENT}")).into_iter().collect()
    }

    pub(crate) fn postgres_store(&self) -> Option<Arc<dyn Store>> {
        None
    }

    pub(crate) fn postgres_tables(&self) -> Result<String, StorageError> {
        Err(absent())
    }

    pub(crate) fn on_postgres(&self, _: &Path) -> Result<Arc<dyn Store>, StorageError> {
        Err(absent())
    }
}

fn absent() -> StorageError {
    StorageError::new(StorageErrorKind::Unusable, ABSENT)
}
