//! Errors of the configuration and the start.

use crate::store::StoreError;

/// Reason why the provenance subsystem cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ProvenanceError {
    /// A configuration key or a statsd variable is invalid, or the original's configuration file is
    /// invalid or unreadable; the text names it.
    #[error("{0}")]
    Config(String),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}
