//! Address of a database in a configuration.

use std::path::Path;

use super::Address;
use crate::{SettingError, read_secret};

/// Keys `dsn` and `dsn_file` of a section. The file replaces `dsn`.
#[derive(Debug, Clone, Copy)]
pub struct ConfiguredAddress<'a> {
    /// Connection string.
    pub dsn: &'a str,
    /// File that contains the connection string.
    pub dsn_file: Option<&'a Path>,
    /// Name of the section, such as `queue.postgres`.
    pub section: &'static str,
    /// Application name of the sessions.
    pub application: &'static str,
}

impl ConfiguredAddress<'_> {
    /// Address without user and password, path of the file that contains it, or error in `dsn`.
    pub fn endpoint(self) -> String {
        let shown = || {
            Address::parse(self.dsn, self.application)
                .map_or_else(|error| error.to_string(), |address| address.to_string())
        };
        self.dsn_file.map_or_else(shown, |file| file.display().to_string())
    }

    /// Error in `dsn`. A connection string in a file is checked on use.
    pub fn error(self) -> Option<String> {
        let parsed = self.dsn_file.is_none().then(|| Address::parse(self.dsn, self.application))?;
        parsed.err().map(|error| error.to_string())
    }

    /// Returns the connection string.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(self) -> Result<String, SettingError> {
        read_secret(self.dsn_file, self.dsn, &format!("{}.dsn_file", self.section))
    }
}
