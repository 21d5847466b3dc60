//! Reasons why the ingesters cannot start.

/// Reason why the ingesters cannot start.
#[derive(Debug, thiserror::Error)]
pub enum IngesterError {
    /// A key of the configuration cannot be used; the text begins with it.
    #[error("{0}")]
    Config(String),
    /// The command line or a variable of the original cannot be used.
    #[error("{0}")]
    Original(String),
}
