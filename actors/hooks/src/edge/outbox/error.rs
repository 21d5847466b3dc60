//! Error of the outbox.

use std::path::PathBuf;

use orchestrator_edge::sqlite;
use orchestrator_observe::{FailureKind, LinkFailure};
use orchestrator_supervise::Fault;

/// Error of the outbox.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// Another instance uses it.
    #[error("the outbox {path} of the hooks is used by another instance: stop that one, or start this one in another directory", path = .path.display())]
    Locked {
        /// Path of the database.
        path: PathBuf,
    },
    /// A newer program wrote it.
    #[error("the outbox {path} of the hooks is that of a newer version: run that one, or move the file away", path = .path.display())]
    Newer {
        /// Path of the database.
        path: PathBuf,
    },
    /// Its directory cannot be created.
    #[error("cannot create directory {path} for the outbox of the hooks: {source}", path = .path.display())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The file cannot be used.
    #[error("the outbox {path} cannot be used", path = .path.display())]
    Unavailable {
        /// Path of the database.
        path: PathBuf,
        /// Error of SQLite or the system.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<&OutboxError> for LinkFailure {
    fn from(error: &OutboxError) -> Self {
        let reason = Fault::from_error(error).to_string();
        match error {
            OutboxError::Unavailable { path, source } => sqlite::failure_of(reason, path, &**source),
            _ => Self::new(FailureKind::Unusable, reason),
        }
    }
}
