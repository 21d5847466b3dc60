//! Error of a configured value.

use std::path::PathBuf;

/// Reason why a configured value cannot be used, and what to do. Its text repeats no value that may hold a
/// secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The value itself. The text begins with a key only where the function says so.
    #[error("{0}")]
    Value(String),
    /// The file of certificate authorities that belongs to the value.
    #[error("ca_file = {}: {reason}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read or used.
        reason: String,
    },
}

impl SettingError {
    /// Text that begins with the key in `section`: `ca_file`, or that of the value.
    pub fn in_section(&self, section: &str, key: &str) -> String {
        match self {
            Self::Value(reason) => format!("{section}.{key} = ..: {reason}"),
            Self::Authorities { .. } => format!("{section}.{self}"),
        }
    }
}

impl From<String> for SettingError {
    fn from(reason: String) -> Self {
        Self::Value(reason)
    }
}

impl From<&str> for SettingError {
    fn from(reason: &str) -> Self {
        Self::Value(reason.to_owned())
    }
}

impl From<SettingError> for String {
    fn from(error: SettingError) -> Self {
        error.to_string()
    }
}
