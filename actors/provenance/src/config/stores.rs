//! Sections of the stores.

use std::path::PathBuf;

#[cfg(feature = "postgres")]
use orchestrator_edge::postgres::ConfiguredAddress;
#[cfg(feature = "mongodb")]
use orchestrator_edge::{SettingError, mongodb, read_secret};
use orchestrator_subsystem::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "postgres")]
use crate::edge::postgres::APPLICATION;
use crate::flavor::Flavor;
#[cfg(any(feature = "mongodb", feature = "postgres"))]
use crate::store::StoreError;

/// Section `[provenance.postgres]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PostgresConfig {
    /// Address of the database, with libpq's `sslmode` and `sslrootcert`; one with a password belongs in
    /// `dsn_file`.
    #[schemars(length(min = 1))]
    pub dsn: Address,
    /// File that contains the DSN; replaces `dsn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dsn_file: Option<PathBuf>,
    /// Schema flavor that `orchestrator provenance init` creates. An existing database keeps its
    /// own.
    pub flavor: Flavor,
    /// Number of connections that write in parallel.
    #[schemars(range(min = 1, max = 32))]
    pub pool: u8,
}

/// Section `[provenance.mongodb]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MongoConfig {
    /// Address of the server or replica set; one with a password belongs in `uri_file`.
    #[schemars(length(min = 1))]
    pub uri: Address,
    /// File that contains the URI; replaces `uri`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri_file: Option<PathBuf>,
    /// Name of the database; a name in the URI is ignored.
    #[schemars(length(min = 1))]
    pub database: String,
}

/// Section `[provenance.sqlite]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SqliteConfig {
    /// Path of the database file, created if missing.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
}

#[cfg(feature = "postgres")]
impl PostgresConfig {
    /// The address without user and password, or the path of the file that contains it.
    pub fn endpoint(&self) -> String {
        self.address().endpoint()
    }

    fn address(&self) -> ConfiguredAddress<'_> {
        let Self { dsn, dsn_file, .. } = self;
        let (section, application) = ("provenance.postgres", APPLICATION);
        ConfiguredAddress { dsn: dsn.expose(), dsn_file: dsn_file.as_deref(), section, application }
    }

    /// A DSN in a file is checked on use.
    pub(super) fn check(&self) -> Option<String> {
        self.address().error()
    }

    /// Returns the DSN, from `dsn_file` if it is set.
    ///
    /// # Errors
    /// The file cannot be read ([`StoreError::Unavailable`]).
    pub fn target(&self) -> Result<String, StoreError> {
        self.address().read().map_err(|error| StoreError::unavailable(error.to_string()))
    }
}

#[cfg(feature = "mongodb")]
impl MongoConfig {
    /// The address without user and password, or the path of the file that contains it.
    pub fn endpoint(&self) -> String {
        if let Some(file) = &self.uri_file {
            return file.display().to_string();
        }
        mongodb::endpoint(self.uri.expose(), &self.database)
    }

    /// A URI in a file is checked on use.
    pub(super) fn check(&self) -> Option<SettingError> {
        mongodb::check_address(self.uri.expose()).err().filter(|_| self.uri_file.is_none())
    }

    /// Returns the URI, from `uri_file` if it is set.
    ///
    /// # Errors
    /// The file cannot be read ([`StoreError::Unavailable`]).
    pub fn target(&self) -> Result<String, StoreError> {
        read_secret(self.uri_file.as_deref(), self.uri.expose(), "provenance.mongodb.uri_file")
            .map_err(|error| StoreError::unavailable(error.to_string()))
    }
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            dsn: Address::new("postgresql://postgres@127.0.0.1:5432/provenance"),
            dsn_file: None,
            flavor: Flavor::default(),
            pool: 2,
        }
    }
}

impl Default for MongoConfig {
    fn default() -> Self {
        Self {
            uri: Address::new("mongodb://127.0.0.1:27017"),
            uri_file: None,
            database: "provenance".to_owned(),
        }
    }
}

impl Default for SqliteConfig {
    fn default() -> Self {
        Self { path: "var/provenance.db".into() }
    }
}

#[cfg(all(test, feature = "mongodb"))]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_the_address() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "mongodb://me:secret@a\n").expect("write");
        let mut config = MongoConfig { uri_file: Some(file.path().into()), ..MongoConfig::default() };
        assert_eq!(config.target().as_deref(), Ok("mongodb://me:secret@a"));
        assert_eq!(config.endpoint(), file.path().display().to_string());
        config.uri_file = Some("/nowhere/uri".into());
        let error = config.target().expect_err("no such file").to_string();
        assert!(error.contains("provenance.mongodb.uri_file"), "{error}");
    }
}
