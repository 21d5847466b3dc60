//! Sections of the stores: where each one is.

use std::path::PathBuf;

use orchestrator_edge::{has_password, mongodb, secret, without_user};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{edge::postgres::Flavor, store::StoreError};

/// Section `[provenance.postgres]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PostgresConfig {
    /// The database; a password belongs into `dsn_file`.
    #[schemars(length(min = 1))]
    pub dsn: String,
    /// A file with the DSN instead, for one with a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dsn_file: Option<PathBuf>,
    /// What `orchestrator provenance init` makes; a store that is there tells its own.
    pub flavor: Flavor,
    /// Connections that write at once.
    #[schemars(range(min = 1, max = 32))]
    pub pool: u8,
}

/// Section `[provenance.mongodb]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MongoConfig {
    /// The server or the replica set; a password belongs into `uri_file`.
    #[schemars(length(min = 1))]
    pub uri: String,
    /// A file with the URI instead, for one with a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri_file: Option<PathBuf>,
    /// The database, whatever the URI names.
    #[schemars(length(min = 1))]
    pub database: String,
}

/// Section `[provenance.sqlite]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SqliteConfig {
    /// The file; created if it is missing.
    #[schemars(length(min = 1))]
    pub path: PathBuf,
}

impl PostgresConfig {
    /// Where the database is, without any password.
    pub fn endpoint(&self) -> String {
        if let Some(file) = &self.dsn_file {
            return file.display().to_string();
        }
        match without_user(&self.dsn) {
            Some(url) => url,
            None => {
                let known =
                    |part: &&str| ["host", "port", "dbname", "user"].iter().any(|key| part.starts_with(key));
                let shown = self.dsn.split_whitespace().filter(known);
                shown.collect::<Vec<_>>().join(" ")
            }
        }
    }

    pub(super) fn names_password(&self) -> bool {
        self.dsn.contains("password") || has_password(&self.dsn)
    }

    /// The DSN.
    ///
    /// # Errors
    /// The file that holds it cannot be read: [`StoreError::Away`], it may come.
    pub fn target(&self) -> Result<String, StoreError> {
        secret(self.dsn_file.as_deref(), &self.dsn, "provenance.postgres.dsn_file").map_err(StoreError::Away)
    }
}

impl MongoConfig {
    /// Where the database is, without any password.
    pub fn endpoint(&self) -> String {
        if let Some(file) = &self.uri_file {
            return file.display().to_string();
        }
        mongodb::endpoint(&self.uri, &self.database)
    }

    pub(super) fn names_password(&self) -> bool {
        mongodb::names_password(&self.uri)
    }

    /// The URI.
    ///
    /// # Errors
    /// The file that holds it cannot be read: [`StoreError::Away`], it may come.
    pub fn target(&self) -> Result<String, StoreError> {
        secret(self.uri_file.as_deref(), &self.uri, "provenance.mongodb.uri_file").map_err(StoreError::Away)
    }
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            dsn: "postgresql://postgres@127.0.0.1:5432/provenance".to_owned(),
            dsn_file: None,
            flavor: Flavor::default(),
            pool: 2,
        }
    }
}

impl Default for MongoConfig {
    fn default() -> Self {
        Self {
            uri: "mongodb://127.0.0.1:27017".to_owned(),
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

#[cfg(test)]
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
