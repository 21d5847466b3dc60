//! Reasons why the producer cannot start.

/// Reason why the producer cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ProducerError {
    /// A key of the configuration cannot be used; the text begins with it.
    #[error("{0}")]
    Config(String),
    /// The original's configuration file cannot be used; the text names the file and the key.
    #[error("{0}")]
    Original(String),
}
