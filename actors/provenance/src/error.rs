//! Errors of the configuration and the start.

use crate::store::StoreError;

/// Reason why the provenance subsystem cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ProvenanceError {
    /// A configuration key or a statsd variable is invalid.
    #[error("{0}")]
    Config(String),
    /// The original's configuration file is invalid or unreadable; the text names the file.
    #[error("{0}")]
    Original(String),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}
