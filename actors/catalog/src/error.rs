//! Reasons why the catalogs cannot start.

/// Reason why the catalogs cannot start.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A key of the configuration cannot be used; the text begins with it.
    #[error("{0}")]
    Config(String),
}
