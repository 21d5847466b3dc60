//! Section `[queue.postgres]` of the configuration.

use std::path::PathBuf;

use orchestrator_edge::postgres::ConfiguredAddress;
use orchestrator_queue_rules::storage::HandoutSettings;
use orchestrator_subsystem::Address;
use orchestrator_text::sanitize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Keys of the configuration that an instance uses.
#[derive(Debug, Clone)]
pub struct InstanceConfig {
    /// The database.
    pub postgres: PostgresConfig,
    /// Settings of hand-outs, unless other instances run with theirs.
    pub handouts: HandoutSettings,
    /// Directory of the fetcher files; the name of the instance is kept beside it.
    pub input_dir: PathBuf,
    /// Path of the worker socket, for operators.
    pub socket: PathBuf,
}

/// Section `[queue.postgres]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PostgresConfig {
    /// Address of the database, with libpq's options; one with a password belongs in `dsn_file`.
    #[schemars(length(min = 1))]
    pub dsn: Address,
    /// File that contains the DSN; replaces `dsn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dsn_file: Option<PathBuf>,
    /// Schema of the queue's tables, created if it is missing: lower-case letters, digits and `_`. Instances
    /// with the same schema share a queue.
    #[schemars(length(min = 1))]
    pub schema: String,
    /// Name of this instance, stable over restarts: letters, digits, `.`, `_` and `-`. Unset: one is made at
    /// the first start and kept in the file `INPUT_DIR.instance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            dsn: Address::new("postgresql:///orchestrator"),
            dsn_file: None,
            schema: "orchestrator_queue".to_owned(),
            instance: None,
        }
    }
}

impl PostgresConfig {
    /// Returns mistakes that the schema does not express.
    #[must_use]
    pub fn check(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        mistakes.extend(self.address().error().map(|error| format!("queue.postgres.dsn = ..: {error}")));
        let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !self.schema.bytes().all(is_lower)
            || self.schema.bytes().next().is_none_or(|byte| byte.is_ascii_digit())
            || self.schema.len() > SCHEMA_BYTES_MAX
        {
            mistakes.push(format!(
                "queue.postgres.schema = {}: use at most {SCHEMA_BYTES_MAX} lower-case letters, digits and _, and begin with no digit",
                sanitize(&self.schema)
            ));
        }
        if let Some(instance) = self.instance.as_deref().filter(|instance| !is_instance_name(instance)) {
            mistakes.push(format!(
                "queue.postgres.instance = {}: use 1 to 100 letters, digits, '.', '_' and '-'",
                sanitize(instance)
            ));
        }
        mistakes
    }

    /// Without user and password; the path if a file contains the address.
    pub(super) fn endpoint(&self) -> String {
        self.address().endpoint()
    }

    pub(super) fn address(&self) -> ConfiguredAddress<'_> {
        let Self { dsn, dsn_file, .. } = self;
        let (section, application) = ("queue.postgres", APPLICATION);
        ConfiguredAddress { dsn: dsn.expose(), dsn_file: dsn_file.as_deref(), section, application }
    }
}

/// Maximum length of the name of a schema: PostgreSQL cuts longer names.
const SCHEMA_BYTES_MAX: usize = 63;

/// Application name of the sessions.
pub(super) const APPLICATION: &str = "orchestrator queue";

pub(super) fn is_instance_name(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=100).contains(&name.len()) && name.bytes().all(is_valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_of_a_shared_queue_are_reported_without_its_password() {
        let postgres = PostgresConfig {
            dsn: Address::new("postgresql://queue:S3CR3T@db:port/queue"),
            schema: "Queue-1".to_owned(),
            instance: Some("host one".to_owned()),
            ..PostgresConfig::default()
        };
        let mistakes = postgres.check();
        for (mistake, key) in mistakes.iter().zip(["dsn", "schema", "instance"]) {
            assert!(mistake.starts_with(&format!("queue.postgres.{key} = ")), "{mistake}");
            assert!(!mistake.contains("S3CR3T"), "{mistake}");
        }
        assert_eq!(mistakes.len(), 3);
        for schema in ["1queue", "queue\"", &"q".repeat(64)] {
            let postgres = PostgresConfig { schema: schema.to_owned(), ..PostgresConfig::default() };
            assert_eq!(postgres.check().len(), 1, "{schema}");
        }
    }
}
