//! Errors that keep the catalogs from starting.

/// Error that keeps the catalogs from starting.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A configuration key has an unusable value; the text begins with the key.
    #[error("{0}")]
    Config(String),
}
