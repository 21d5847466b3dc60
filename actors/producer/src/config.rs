//! Section `[producer]` of the configuration.

mod on_complete;

use std::{collections::BTreeMap, path::PathBuf};

use orchestrator_edge::{SettingError, mongodb, read_secret, without_credentials};
use orchestrator_producer_rules::{job::JobOptions, queue_state::CountedQueues};
use orchestrator_subsystem::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::on_complete::OnCompleteConfig;
use crate::{edge::faktory::Server, edge::mongodb::Collections};

/// Section `[producer]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProducerConfig {
    /// Rules: `default`, or `strict` for exactly those of the original, with its flaws.
    pub compat: Compat,
    /// Tangles of a page. A stencil that has been started keeps its own.
    #[schemars(range(min = 1))]
    pub page_size: u32,
    /// Jobs of a chunk, which is pushed before the cursor is written. A lost reply repeats one chunk at most.
    #[schemars(range(min = 1, max = 1_000))]
    pub chunk: u32,
    /// Connections to Faktory that a chunk is spread over; `strict` uses only the first one.
    #[schemars(range(min = 1, max = 4))]
    pub connections: u8,
    /// Faktory queue of the jobs: letters, digits, `.`, `_` and `-`.
    #[schemars(length(min = 1))]
    pub queue: String,
    /// Job type that the workers register.
    #[schemars(length(min = 1))]
    pub job_type: String,
    /// Queues of the jobs with these TCNs, in place of `queue`, e.g. `{ 6 = "heavy" }`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub queues: BTreeMap<String, String>,
    /// Types of the jobs with these TCNs, in place of `job_type`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub job_types: BTreeMap<String, String>,
    /// Retries of a job that fails, by Faktory; 0 drops it, -1 makes it dead at once.
    #[schemars(range(min = -1, max = 1_000))]
    pub retry: i32,
    /// Fields of each job's `custom`, besides the `key` that the producer sets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub custom: BTreeMap<String, Value>,
    /// Time a worker has for a job before Faktory hands it out again, in seconds.
    #[schemars(range(min = 60, max = 86_400))]
    pub reserve_for_secs: u32,
    /// Queue length above which pushing stops; 0 for no bound.
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub high_water: u64,
    /// Queue length at which pushing resumes.
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub low_water: u64,
    /// Interval between two checks of the queue and the database, in milliseconds.
    #[schemars(range(min = 10, max = 600_000))]
    pub poll_ms: u32,
    /// Lease duration, in milliseconds. A standby producer takes over after this time without a renewal.
    #[schemars(range(min = 3_000, max = 600_000))]
    pub lease_ms: u32,
    /// Exit once `max_tcn` is complete, instead of waiting for a greater one.
    pub until_done: bool,
    /// Queues whose waiting jobs keep a TCN from being complete: the producer's own queue, or all.
    pub count: CountedQueues,
    /// Complete a TCN even if there are dead jobs.
    pub ignore_dead: bool,
    /// Show the waiting jobs of each queue of the server as a metric. Up to 64 queues have one.
    pub queue_gauges: bool,
    /// Create missing indexes of the tangles at the start. Without them, each page scans the collection.
    pub ensure_indexes: bool,
    /// Faktory, which receives the jobs.
    pub faktory: FaktoryConfig,
    /// MongoDB, which has the stencils and tangles.
    pub mongodb: MongoConfig,
    /// Program or webhook that receives each completed TCN.
    pub on_complete: OnCompleteConfig,
}

/// Section `[producer.faktory]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FaktoryConfig {
    /// Address of the server: `tcp://host:port`, or `tcp+tls://host:port` for TLS. A password belongs into
    /// `password_file`.
    #[schemars(length(min = 1))]
    pub url: Address,
    /// File with the server's password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// PEM file with certificate authorities that replace the public ones, for TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

/// Rules of the producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compat {
    /// The original's rules without its flaws (CONTRACT SX01 to SX14).
    #[default]
    Default,
    /// Exactly the original's rules.
    Strict,
}

/// Section `[producer.mongodb]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MongoConfig {
    /// Address of the server or the replica set. One with a password belongs into `uri_file`.
    #[schemars(length(min = 1))]
    pub uri: Address,
    /// File with the address, in place of `uri`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri_file: Option<PathBuf>,
    /// Name of the database. A name in the address has no effect.
    #[schemars(length(min = 1))]
    pub database: String,
    /// Collection of the stencils and the configuration document.
    #[schemars(length(min = 1))]
    pub stencils: String,
    /// Collection of the tangles.
    #[schemars(length(min = 1))]
    pub tangles: String,
}

impl ProducerConfig {
    /// Returns the errors that the schema cannot express. Each begins with `section.key = value`.
    pub fn check(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.high_water > 0 && self.low_water > self.high_water {
            errors.push(format!(
                "producer.low_water = {}: it must not be greater than high_water, which is {}",
                self.low_water, self.high_water
            ));
        }
        if self.until_done && self.compat == Compat::Strict {
            errors.push(
                "producer.until_done = true: compat = \"strict\" never ends: remove one of the two keys"
                    .to_owned(),
            );
        }
        errors.extend(self.job_options().err());
        errors.extend(self.on_complete.check());
        if self.on_complete.is_configured() && self.compat == Compat::Strict {
            errors.push(
                "producer.compat = \"strict\": the original has no on_complete: remove one of the two"
                    .to_owned(),
            );
        }
        // The files are read at run time, so they may still be missing.
        let wrong = Server::new(self.faktory.url.expose(), None, None).err();
        errors.extend(wrong.map(|error| format!("producer.{error}")));
        if self.mongodb.uri_file.is_none() {
            let wrong = mongodb::check_address(self.mongodb.uri.expose()).err();
            errors.extend(wrong.map(|error| format!("producer.mongodb.uri = ..: {error}")));
        }
        errors
    }

    /// Returns the lines about the producer that a start at a terminal shows.
    pub fn greeting(&self) -> String {
        let (from, to) = (self.mongodb.endpoint(), self.faktory.endpoint());
        format!("  producer    {from} -> {to}\n              status:       orchestrator producer status\n")
    }

    /// Returns the options that all jobs share.
    ///
    /// # Errors
    /// Faktory would refuse such jobs. The text begins with the key.
    pub(crate) fn job_options(&self) -> Result<JobOptions, String> {
        let options = JobOptions {
            queue: self.queue.clone(),
            jobtype: self.job_type.clone(),
            queues: by_tcn("queues", &self.queues)?,
            jobtypes: by_tcn("job_types", &self.job_types)?,
            retry: self.retry,
            reserve_for_secs: self.reserve_for_secs,
            custom: self.custom.clone().into_iter().collect(),
            ..JobOptions::default()
        };
        options.check().map_err(|error| format!("producer.{error}"))?;
        Ok(options)
    }
}

/// Parses the TCNs of the table `key`.
fn by_tcn(key: &str, table: &BTreeMap<String, String>) -> Result<BTreeMap<i64, String>, String> {
    let parse = |(tcn, name): (&String, &String)| match tcn.parse() {
        Ok(tcn) => Ok((tcn, name.clone())),
        Err(_) => Err(format!("producer.{key}.{tcn} = {name:?}: a TCN is a whole number, such as 6")),
    };
    table.iter().map(parse).collect()
}

impl FaktoryConfig {
    /// Without a password.
    pub(crate) fn endpoint(&self) -> String {
        without_credentials(self.url.expose()).unwrap_or_default()
    }

    /// Returns the Faktory server.
    ///
    /// # Errors
    /// The url or `ca_file` cannot be used. The text begins with the key.
    pub(crate) fn server(&self) -> Result<Server, String> {
        Server::new(self.url.expose(), self.ca_file.as_deref(), self.password_file.as_deref())
            .map_err(|error| format!("producer.{error}"))
    }
}

impl MongoConfig {
    /// The database's address without a password. While `uri_file` cannot be read, the path of that file.
    pub fn endpoint(&self) -> String {
        match (self.target(), &self.uri_file) {
            (Err(_), Some(file)) => file.display().to_string(),
            (target, _) => mongodb::endpoint(target.as_deref().unwrap_or_default(), &self.database),
        }
    }

    pub(crate) fn collections(&self) -> Collections {
        let Self { database, stencils, tangles, .. } = self.clone();
        Collections { database, stencils, tangles }
    }

    /// Returns the address of the database, with its password.
    ///
    /// # Errors
    /// `uri_file` cannot be read, for now.
    pub fn target(&self) -> Result<String, SettingError> {
        read_secret(self.uri_file.as_deref(), self.uri.expose(), "producer.mongodb.uri_file")
    }
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            compat: Compat::default(),
            page_size: 500,
            chunk: 1_000,
            connections: 1,
            queue: JobOptions::default().queue,
            job_type: JobOptions::default().jobtype,
            queues: BTreeMap::new(),
            job_types: BTreeMap::new(),
            retry: JobOptions::default().retry,
            custom: BTreeMap::new(),
            reserve_for_secs: JobOptions::default().reserve_for_secs,
            high_water: 1_000_000,
            low_water: 500_000,
            poll_ms: 3_000,
            lease_ms: 30_000,
            until_done: false,
            count: CountedQueues::default(),
            ignore_dead: false,
            queue_gauges: true,
            ensure_indexes: false,
            faktory: FaktoryConfig::default(),
            mongodb: MongoConfig::default(),
            on_complete: OnCompleteConfig::default(),
        }
    }
}

impl Default for FaktoryConfig {
    fn default() -> Self {
        Self { url: Address::new("tcp://127.0.0.1:7419"), password_file: None, ca_file: None }
    }
}

impl Default for MongoConfig {
    fn default() -> Self {
        Self {
            uri: Address::new("mongodb://127.0.0.1:27017"),
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
        MongoConfig { uri: Address::new(uri), ..MongoConfig::default() }
    }

    #[test]
    fn an_endpoint_has_no_secrets() {
        for (uri, endpoint, wrong) in [
            ("mongodb://127.0.0.1:27017", "mongodb://127.0.0.1:27017/tanglenomicon", false),
            ("mongodb://me:p%2F@a:1,b/admin?appName=y", "mongodb://a:1,b/tanglenomicon", false),
            ("mongodb://me@a", "mongodb://a/tanglenomicon", false),
            ("mongodb://a?tlsCertificateKeyFilePassword=x", "mongodb://?/tanglenomicon", true),
            ("nonsense", "mongodb://?/tanglenomicon", true),
        ] {
            let config = ProducerConfig { mongodb: at(uri), ..ProducerConfig::default() };
            assert_eq!(
                (config.mongodb.endpoint().as_str(), config.check().len()),
                (endpoint, usize::from(wrong))
            );
        }
    }

    #[test]
    fn a_low_mark_above_the_high_mark_is_refused() {
        let mut config = ProducerConfig { high_water: 10, low_water: 11, ..ProducerConfig::default() };
        assert!(config.check()[0].starts_with("producer.low_water = 11: "));
        config.high_water = 0;
        assert_eq!(config.check(), Vec::<String>::new(), "there is no bound");
    }

    #[test]
    fn invalid_job_options_are_refused_by_key() {
        let table = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let none = ProducerConfig::default();
        for (config, said) in [
            (
                ProducerConfig { queues: table("six", "heavy"), ..none.clone() },
                "producer.queues.six = \"heavy\": ",
            ),
            (ProducerConfig { queues: table("6", "a b"), ..none.clone() }, "producer.queues.6 = \"a b\": "),
            (
                ProducerConfig { job_types: table("6.5", "x"), ..none.clone() },
                "producer.job_types.6.5 = \"x\": ",
            ),
            (ProducerConfig { queue: "a b".to_owned(), ..none.clone() }, "producer.queue = \"a b\": "),
            (
                ProducerConfig { custom: [("key".to_owned(), Value::Null)].into(), ..none.clone() },
                "producer.custom.key",
            ),
        ] {
            let errors = config.check();
            assert!(errors.len() == 1 && errors[0].starts_with(said), "{errors:?}");
        }
        let valid = ProducerConfig { queues: table("-1", "heavy"), job_types: table("6", "x"), ..none };
        assert_eq!(valid.check(), Vec::<String>::new());
        let options = valid.job_options().unwrap();
        assert_eq!((&options.queues[&-1], &options.jobtypes[&6]), (&"heavy".to_owned(), &"x".to_owned()));
    }

    #[test]
    fn strict_refuses_until_done() {
        let mut config =
            ProducerConfig { until_done: true, compat: Compat::Strict, ..ProducerConfig::default() };
        assert!(config.check()[0].starts_with("producer.until_done = true: "));
        config.compat = Compat::Default;
        assert_eq!(config.check(), Vec::<String>::new());
    }

    #[test]
    fn an_invalid_faktory_url_is_refused_without_its_password() {
        let mut config =
            FaktoryConfig { password_file: Some("/nowhere/password".into()), ..Default::default() };
        config.server().expect("the file may be missing");
        config.ca_file = Some("/nowhere/ca.pem".into());
        config.server().expect("the file is not read without TLS");
        config.url = Address::new("tcp+tls://faktory");
        assert!(config.server().unwrap_err().starts_with("producer.faktory.ca_file = /nowhere/ca.pem: "));
        config.url = Address::new("tcp://:secret@faktory:port");
        let errors = ProducerConfig { faktory: config, ..ProducerConfig::default() }.check();
        assert!(
            errors[0].starts_with("producer.faktory.url = ..: ") && !errors[0].contains("secret"),
            "{errors:?}"
        );
    }

    #[test]
    fn a_file_may_have_the_address() {
        let mut config = at("mongodb://a");
        assert_eq!(config.target().as_deref(), Ok("mongodb://a"));
        config.uri_file = Some("/nowhere/uri".into());
        assert!(config.target().unwrap_err().to_string().contains("producer.mongodb.uri_file"));
        assert_eq!(config.endpoint(), "/nowhere/uri");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "mongodb://me:s3cr3t@b:1/?authSource=admin\n").unwrap();
        config.uri_file = Some(file.path().to_owned());
        assert_eq!(config.endpoint(), "mongodb://b:1/tanglenomicon");
    }
}
