//! Reasons why provenance cannot start.

use crate::store::StoreError;

/// Reason why provenance cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ProvenanceError {
    /// A key of the configuration, or a variable of statsd, cannot be used.
    #[error("{0}")]
    Config(String),
    /// The original's configuration file cannot be used; the text names the file.
    #[error("{0}")]
    Original(String),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}
