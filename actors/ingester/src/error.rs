//! Reasons why the ingesters cannot start.

/// Reason why the ingesters cannot start.
#[derive(Debug, thiserror::Error)]
pub enum IngesterError {
    /// A configuration key is invalid; the text begins with the key.
    #[error("{0}")]
    Config(String),
    /// An argument or a variable of the original is invalid.
    #[error("{0}")]
    Original(String),
}
