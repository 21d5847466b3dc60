//! Rules that all instances of a queue share, kept in the database.
//!
//! The first instance that runs alone sets them. One that starts beside others takes theirs.

use orchestrator_queue_rules::storage::{Limit, StorageError};
use serde::{Deserialize, Serialize};

use super::{server_session::Session, session::first};
use crate::config::QueueConfig;

/// Rules of hand-outs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rules {
    pub(crate) hold_secs: i64,
    pub(crate) redeliver_after_lease: bool,
    pub(crate) attempts: u64,
    pub(crate) limit: Vec<Limit>,
}

impl From<&QueueConfig> for Rules {
    fn from(config: &QueueConfig) -> Self {
        Self {
            hold_secs: i64::from(config.hold_secs),
            redeliver_after_lease: config.redeliver_after_lease,
            attempts: u64::from(config.attempts),
            limit: config.limit.clone(),
        }
    }
}

pub(super) async fn read(session: &mut Session) -> Result<Option<Rules>, StorageError> {
    let sql = "SELECT value FROM property WHERE name = 'rules'";
    let rows = session.query("reading the rules", sql, vec![]).await?;
    Ok(first::<String>(&rows)?.and_then(|known| serde_json::from_str(&known).ok()))
}
