//! Error in a connection string.

/// Error in an address. It repeats no part of the address but names of options and of files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OptionError {
    /// It is neither a URL nor a list of options.
    #[error("cannot be read")]
    Unreadable,
    /// An option of TLS is not supported, or its value is wrong.
    #[error("{0}")]
    Invalid(String),
}
