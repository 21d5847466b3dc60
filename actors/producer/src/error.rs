//! Errors of the start.

/// Reason why the producer cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ProducerError {
    /// A configuration key cannot be used. The text begins with the key.
    #[error("{0}")]
    Config(String),
    /// The original's configuration file cannot be used. The text names the file and the key.
    #[error("{0}")]
    Original(String),
}
