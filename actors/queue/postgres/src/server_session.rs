//! A session whose errors are those of a storage.

use std::borrow::Cow;

use orchestrator_edge::postgres::{Address, Params, Row, Session as ServerSession, SessionSettings};
use orchestrator_queue_rules::storage::StorageError;

use super::error::storage_error;

/// Session with the server.
#[derive(Debug)]
pub(crate) struct Session(pub(super) ServerSession);

impl Session {
    pub(super) async fn open(address: &Address, settings: &SessionSettings) -> Result<Self, StorageError> {
        ServerSession::open(address, settings).await.map(Self).map_err(storage_error)
    }

    /// Runs statements without parameters.
    pub(super) async fn batch(&mut self, action: &str, sql: &str) -> Result<(), StorageError> {
        self.0.batch(action, sql).await.map_err(storage_error)
    }

    /// Runs one prepared statement.
    pub(super) async fn query(
        &mut self,
        action: &str,
        sql: impl Into<Cow<'static, str>>,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StorageError> {
        self.0.query(action, sql, params).await.map_err(storage_error)
    }
}
