//! Section `[producer]` of the configuration.

use std::path::PathBuf;

use orchestrator_edge::{mongodb, read_secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{edge::faktory::Server, edge::mongodb::Place, job::Terms, reading::Count};

/// How stencils become jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProducerConfig {
    /// `strict` follows the original to the letter; `default` mends its flaws.
    pub compat: Compat,
    /// Tangles of a page; a stencil that was begun keeps its own.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub page_size: u32,
    /// Jobs that are pushed at once; what a lost reply may repeat.
    #[schemars(range(min = 1, max = 1_000))]
    pub chunk: u32,
    /// Connections to Faktory that a chunk is spread over. The original's order needs one, so strict uses only the first.
    #[schemars(range(min = 1, max = 4))]
    pub connections: u8,
    /// How long a worker may take for a job before it is handed out again, seconds.
    #[schemars(range(min = 60, max = 86_400))]
    pub reserve_for_secs: u32,
    /// Nothing is pushed while more jobs than this wait in the queue; 0: no bound.
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub high_water: u64,
    /// Once it stopped, pushing goes on when no more jobs than this wait.
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub low_water: u64,
    /// Time between two looks at the queue, milliseconds.
    #[schemars(range(min = 10, max = 600_000))]
    pub poll_ms: u32,
    /// How long another producer waits for this one's lease when it is gone, milliseconds.
    #[schemars(range(min = 3_000, max = 600_000))]
    pub lease_ms: u32,
    /// End once `max_tcn` is complete, instead of waiting for a greater one.
    pub until_done: bool,
    /// Whose waiting jobs keep a TCN from being complete: those of the own queue, or of all.
    pub count: Count,
    /// Complete TCNs although jobs have failed for good.
    pub ignore_dead: bool,
    /// Make the indexes of tangles that pages need, if they are missing; else that is told, and each page is a walk over all.
    pub ensure_indexes: bool,
    /// Where jobs go.
    pub faktory: FaktoryConfig,
    /// Where stencils and tangles are.
    pub mongodb: MongoConfig,
}

/// Section `[producer.faktory]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FaktoryConfig {
    /// The server, `tcp://host:port`, or `tcp+tls://host:port` for TLS; a password belongs into `password_file`.
    #[schemars(length(min = 1), extend("format" = "address"))]
    pub url: String,
    /// A file with the server's password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// A file of authorities (PEM) that are trusted in place of the public ones, for TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// Which rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compat {
    /// The original's with its flaws mended.
    #[default]
    Default,
    /// The original's to the letter.
    Strict,
}

/// Section `[producer.mongodb]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MongoConfig {
    /// The server or the replica set; a password belongs into `uri_file`.
    #[schemars(length(min = 1), extend("format" = "address"))]
    pub uri: String,
    /// A file with the URI instead, for one with a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri_file: Option<PathBuf>,
    /// The database, whatever the URI names.
    #[schemars(length(min = 1))]
    pub database: String,
    /// The collection of stencils, with the configuration document.
    #[schemars(length(min = 1))]
    pub stencils: String,
    /// The collection of tangles.
    #[schemars(length(min = 1))]
    pub tangles: String,
}

impl ProducerConfig {
    /// What a schema cannot say. The texts begin with `section.key = value`.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.high_water > 0 && self.low_water > self.high_water {
            wrong.push(format!(
                "producer.low_water = {}: it would never be reached: set it below high_water, {}",
                self.low_water, self.high_water
            ));
        }
        if self.until_done && self.compat == Compat::Strict {
            wrong.push(
                "producer.until_done = true: with compat = \"strict\" there is no end, as in the original: leave one of them"
                    .to_owned(),
            );
        }
        // What the files hold is looked at when it runs.
        if let Err(error) = Server::new(&self.faktory.url, None, None) {
            wrong.push(format!("producer.{error}"));
        }
        if mongodb::contains_password(&self.mongodb.uri) {
            wrong.push(
                "producer.mongodb.uri = ..: it may hold a password: put it into a file and name that in uri_file"
                    .to_owned(),
            );
        } else if self.mongodb.uri_file.is_none() && mongodb::check_address(&self.mongodb.uri).is_err() {
            // The driver's text may quote the address, and that a password.
            wrong.push(
                "producer.mongodb.uri = ..: this is no address of a database: write mongodb://HOST:PORT"
                    .to_owned(),
            );
        }
        wrong
    }

    /// For a person at a terminal: what it works on, and how to look at it.
    pub fn greeting(&self) -> String {
        let (from, to) = (self.mongodb.endpoint(), &self.faktory.url);
        format!("  producer    {from} -> {to}\n          how far:      orchestrator producer status\n")
    }

    /// What all jobs have in common.
    pub(crate) fn terms(&self) -> Terms {
        Terms { reserve_for_secs: self.reserve_for_secs, ..Terms::default() }
    }
}

impl FaktoryConfig {
    /// The server.
    ///
    /// # Errors
    /// The url cannot be used, or the file of authorities cannot be read. The text begins with the key.
    pub(crate) fn server(&self) -> Result<Server, String> {
        let server = Server::new(&self.url, self.ca_file.as_deref(), None);
        let server = server.map_err(|error| format!("producer.{error}"))?;
        Ok(match &self.password_file {
            Some(file) => server.password_file(file),
            None => server,
        })
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

    /// The collections.
    pub(crate) fn place(&self) -> Place {
        let Self { database, stencils, tangles, .. } = self.clone();
        Place { database, stencils, tangles }
    }

    /// The URI.
    ///
    /// # Errors
    /// The file that holds it cannot be read; it may come.
    pub fn target(&self) -> Result<String, String> {
        read_secret(self.uri_file.as_deref(), &self.uri, "producer.mongodb.uri_file")
    }
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            compat: Compat::default(),
            page_size: 500,
            chunk: 1_000,
            connections: 1,
            reserve_for_secs: Terms::default().reserve_for_secs,
            high_water: 1_000_000,
            low_water: 500_000,
            poll_ms: 3_000,
            lease_ms: 30_000,
            until_done: false,
            count: Count::default(),
            ignore_dead: false,
            ensure_indexes: false,
            faktory: FaktoryConfig::default(),
            mongodb: MongoConfig::default(),
        }
    }
}

impl Default for FaktoryConfig {
    fn default() -> Self {
        Self { url: "tcp://127.0.0.1:7419".to_owned(), password_file: None, ca_file: None }
    }
}

impl Default for MongoConfig {
    fn default() -> Self {
        Self {
            uri: "mongodb://127.0.0.1:27017".to_owned(),
            uri_file: None,
            database: "tanglenomicon".to_owned(),
            stencils: "arborescent_stencils".to_owned(),
            tangles: "arborescent_tangles".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(uri: &str) -> MongoConfig {
        MongoConfig { uri: uri.to_owned(), ..MongoConfig::default() }
    }

    #[test]
    fn where_the_database_is_is_told_without_its_secrets() {
        for (uri, endpoint, secret) in [
            ("mongodb://127.0.0.1:27017", "mongodb://127.0.0.1:27017/tanglenomicon", false),
            ("mongodb://me:p%2F@a:1,b/admin?appName=y", "mongodb://a:1,b/tanglenomicon", true),
            ("mongodb://me@a", "mongodb://a/tanglenomicon", false),
            ("mongodb://a?tlsCertificateKeyFilePassword=x", "mongodb://?/tanglenomicon", true),
            ("nonsense", "mongodb://?/tanglenomicon", true),
        ] {
            let config = ProducerConfig { mongodb: at(uri), ..ProducerConfig::default() };
            assert_eq!(
                (config.mongodb.endpoint().as_str(), config.check().len()),
                (endpoint, usize::from(secret))
            );
        }
    }

    #[test]
    fn a_low_mark_above_the_high_one_is_told() {
        let mut config = ProducerConfig { high_water: 10, low_water: 11, ..ProducerConfig::default() };
        assert!(config.check()[0].starts_with("producer.low_water = 11: "));
        config.high_water = 0;
        assert_eq!(config.check(), Vec::<String>::new(), "there is no bound");
    }

    #[test]
    fn what_never_ends_is_not_waited_for() {
        let mut config =
            ProducerConfig { until_done: true, compat: Compat::Strict, ..ProducerConfig::default() };
        assert!(config.check()[0].starts_with("producer.until_done = true: "));
        config.compat = Compat::Default;
        assert_eq!(config.check(), Vec::<String>::new());
    }

    #[test]
    fn faktorys_address_is_checked_and_its_secret_not_told() {
        let mut config =
            FaktoryConfig { password_file: Some("/nowhere/password".into()), ..Default::default() };
        config.server().expect("the file may come");
        config.ca_file = Some("/nowhere/ca.pem".into());
        config.server().expect("nobody asks for it without TLS");
        config.url = "tcp+tls://faktory".to_owned();
        assert!(config.server().unwrap_err().starts_with("producer.faktory.ca_file = /nowhere/ca.pem: "));
        config.url = "tcp://:secret@faktory".to_owned();
        let told = ProducerConfig { faktory: config, ..ProducerConfig::default() }.check();
        assert!(
            told[0].starts_with("producer.faktory.url = ..: ") && !told[0].contains("secret"),
            "{told:?}"
        );
    }

    #[test]
    fn a_file_may_hold_the_address() {
        let mut config = at("mongodb://a");
        assert_eq!(config.target().as_deref(), Ok("mongodb://a"));
        config.uri_file = Some("/nowhere/uri".into());
        assert!(config.target().unwrap_err().contains("producer.mongodb.uri_file"));
        assert_eq!(config.endpoint(), "/nowhere/uri");
    }
}
