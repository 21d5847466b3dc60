//! Section `[provenance]` of the configuration.

mod stores;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use orchestrator_edge::{SettingError, amqp::Broker, check_database_path, read_secret};
use orchestrator_subsystem::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    edge::amqp::Topology,
    method::Exchange,
    policy::{RangeSet, Routing, Worker},
};
pub use stores::{MongoConfig, PostgresConfig, SqliteConfig};

/// Section `[provenance]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProvenanceConfig {
    /// Ranges that this process serves, for example `0-7` or `0-3,c`. With `transport = "amqp"`
    /// several processes may share the ranges.
    pub ranges: RangeSet,
    /// Ranges of single exchanges where they differ from `ranges`.
    pub exchange_ranges: ExchangeRanges,
    /// Rows per batch of a worker. One message with more rows is a batch of its own.
    #[schemars(range(min = 1, max = 10_000))]
    pub batch: u32,
    /// AMQP prefetch of each queue: unacknowledged messages at a time.
    #[schemars(range(min = 1, max = 10_000))]
    pub prefetch: u16,
    /// Rule that derives the range of a row. All clients of a store must use the same.
    pub routing: Routing,
    /// Transport of rows from clients to workers.
    pub transport: Transport,
    /// SQLite file of the permanently refused rows with `transport = "embedded"`. With `amqp` they
    /// go to a queue of the broker.
    pub dead_letters: PathBuf,
    /// Client.
    pub client: ClientConfig,
    /// RabbitMQ.
    pub amqp: AmqpConfig,
    /// Writer.
    pub writer: WriterConfig,
    /// PostgreSQL store.
    pub postgres: PostgresConfig,
    /// MongoDB store.
    pub mongodb: MongoConfig,
    /// SQLite store.
    pub sqlite: SqliteConfig,
}

/// Section `[provenance.exchange_ranges]`. An exchange without a key has `provenance.ranges`;
/// `none` leaves it to other processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExchangeRanges {
    /// Contents and their relations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<RangeSet>,
    /// Directories and their relation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<RangeSet>,
    /// Revisions and their relations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<RangeSet>,
    /// Origins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<RangeSet>,
    /// Locations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<RangeSet>,
}

/// Transport of rows from clients to workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Directly to the workers of this process; no broker.
    #[default]
    Embedded,
    /// Through RabbitMQ, as in the original.
    Amqp,
}

/// Section `[provenance.client]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClientConfig {
    /// Maximum number of rows in a message.
    #[schemars(range(min = 1, max = 10_000))]
    pub batch: u32,
    /// AMQP prefetch of responses.
    #[schemars(range(min = 1, max = 10_000))]
    pub prefetch: u16,
    /// Minimum time that a call waits for the next response, in seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub wait_min_secs: u32,
    /// Time that a call waits for each batch of its rows, in seconds, if the sum exceeds the
    /// minimum.
    #[schemars(range(min = 0, max = 86_400))]
    pub wait_per_batch_secs: u32,
}

/// Section `[provenance.amqp]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AmqpConfig {
    /// URL of the broker; `amqps://` for TLS. A URL with a password belongs in `url_file`.
    #[schemars(length(min = 1))]
    pub url: Address,
    /// File that contains the URL; replaces `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// PEM file of the trusted certificate authorities for `amqps://`; replaces the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Type of exchanges and queues. All servers and clients of a virtual host must use the same. If
    /// unset, it is `transient`; queues are durable if the broker refuses transient ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
}

/// Section `[provenance.writer]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WriterConfig {
    /// Kind of store.
    pub kind: WriterKind,
}

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriterKind {
    /// SQLite file; no server.
    #[default]
    Sqlite,
    /// The original's tables in PostgreSQL, created by `orchestrator provenance init`.
    Postgres,
    /// The original's documents in MongoDB, created by the first write.
    Mongodb,
}

/// Kinds of store in this build.
const BUILT: &[WriterKind] = &[
    #[cfg(feature = "sqlite")]
    WriterKind::Sqlite,
    #[cfg(feature = "postgres")]
    WriterKind::Postgres,
    #[cfg(feature = "mongodb")]
    WriterKind::Mongodb,
];

impl fmt::Display for WriterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mongodb => "mongodb",
        })
    }
}

impl ProvenanceConfig {
    /// Returns the errors that the schema cannot express, each beginning with `section.key =
    /// value`.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.transport == Transport::Embedded {
            let elsewhere =
                "without a broker this process must serve all ranges; set transport = \"amqp\", or leave";
            if self.ranges != RangeSet::ALL {
                wrong.push(format!("provenance.ranges = {}: {elsewhere} ranges out", self.ranges));
            }
            for (exchange, ranges) in self.exchange_ranges.set() {
                let key = format!("provenance.exchange_ranges.{}", exchange.name());
                if ranges != RangeSet::ALL {
                    wrong.push(format!("{key} = {ranges}: {elsewhere} it out"));
                }
            }
        } else if self.workers().next().is_none() {
            wrong.push(format!(
                "provenance.ranges = {}: this process has no range of any exchange: name at least one",
                self.ranges
            ));
        }
        wrong.extend(self.check_edges());
        wrong
    }

    /// Checks that this build has the store and the transport, and parses each address. Files that
    /// contain an address are read on use. The texts begin with `section.key = ..` and never repeat
    /// an address, which may contain a password.
    pub fn check_edges(&self) -> Vec<String> {
        let Self { amqp, .. } = self;
        let mut wrong = self.missing_stores(BUILT);
        wrong
            .extend(check_database_path("provenance.sqlite.path", &self.sqlite.path).err().map(String::from));
        let broker = amqp.url_file.is_none().then(|| Broker::new(amqp.url.expose(), ""));
        if let Some(Err(reason)) = broker {
            wrong.push(format!("provenance.amqp.url = ..: {reason}"));
        }
        #[cfg(feature = "postgres")]
        wrong.extend(self.postgres.check().map(|reason| format!("provenance.postgres.dsn = ..: {reason}")));
        #[cfg(feature = "mongodb")]
        wrong.extend(self.mongodb.check().map(|reason| format!("provenance.mongodb.uri = ..: {reason}")));
        wrong
    }

    /// One error for each key that needs a store outside of `built`.
    fn missing_stores(&self, built: &[WriterKind]) -> Vec<String> {
        let (kind, mut wrong) = (self.writer.kind, Vec::new());
        if !built.contains(&kind) {
            wrong.push(format!(
                "provenance.writer.kind = {kind}: this build lacks this store: build with the feature provenance-{kind}, or choose another"
            ));
        }
        if self.transport == Transport::Embedded && !built.contains(&WriterKind::Sqlite) {
            let advice = "build with the feature provenance-sqlite, or set transport = \"amqp\"";
            wrong.push(format!(
                "provenance.transport = embedded: this build lacks SQLite, which stores the refused rows: {advice}"
            ));
        }
        wrong
    }

    /// Database file of this process, if it has one: the store, or else the refused rows.
    pub(crate) fn own_file(&self) -> Option<&Path> {
        match (self.writer.kind, self.transport) {
            (WriterKind::Sqlite, _) => Some(&self.sqlite.path),
            (_, Transport::Embedded) => Some(&self.dead_letters),
            (_, Transport::Amqp) => None,
        }
    }

    /// Workers of this process, in the order of the pool.
    pub fn workers(&self) -> impl Iterator<Item = Worker> + use<> {
        let mut ranges = [self.ranges; Exchange::ALL.len()];
        self.exchange_ranges.set().for_each(|(exchange, own)| ranges[exchange as usize] = own);
        Worker::all().filter(move |worker| ranges[worker.exchange as usize].contains(worker.range))
    }
}

impl ExchangeRanges {
    fn set(&self) -> impl Iterator<Item = (Exchange, RangeSet)> {
        let Self { content, directory, revision, origin, location } = *self;
        let all = [content, directory, revision, origin, location];
        Exchange::ALL.into_iter().zip(all).filter_map(|(exchange, ranges)| Some((exchange, ranges?)))
    }
}

impl AmqpConfig {
    /// Returns the broker's url, from `url_file` if it is set.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn target(&self) -> Result<String, SettingError> {
        read_secret(self.url_file.as_deref(), self.url.expose(), "provenance.amqp.url_file")
    }
}

impl Default for ProvenanceConfig {
    fn default() -> Self {
        Self {
            ranges: RangeSet::ALL,
            exchange_ranges: ExchangeRanges::default(),
            batch: 100,
            prefetch: 100,
            routing: Routing::default(),
            transport: Transport::default(),
            dead_letters: "var/provenance-dead-letters.db".into(),
            client: ClientConfig::default(),
            amqp: AmqpConfig::default(),
            writer: WriterConfig::default(),
            postgres: PostgresConfig::default(),
            mongodb: MongoConfig::default(),
            sqlite: SqliteConfig::default(),
        }
    }
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self { batch: 100, prefetch: 100, wait_min_secs: 60, wait_per_batch_secs: 10 }
    }
}

impl Default for AmqpConfig {
    fn default() -> Self {
        Self {
            url: Address::new("amqp://guest:guest@127.0.0.1:5672/%2f"),
            url_file: None,
            ca_file: None,
            topology: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_missing_in_the_build_is_refused() {
        let embedded = ProvenanceConfig::default();
        assert_eq!(embedded.missing_stores(&[WriterKind::Sqlite]), Vec::<String>::new());
        let refused = embedded.missing_stores(&[WriterKind::Postgres]).join("\n");
        assert!(refused.contains("the feature provenance-sqlite, or choose another"), "{refused}");
        assert!(refused.contains("provenance.transport = embedded"), "{refused}");
        let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
        config.writer.kind = WriterKind::Postgres;
        assert_eq!(config.missing_stores(&[WriterKind::Postgres]), Vec::<String>::new());
        assert_eq!(config.missing_stores(&[WriterKind::Mongodb]).len(), 1);
    }

    #[cfg(all(feature = "mongodb", feature = "postgres"))]
    #[test]
    fn an_unreadable_address_is_refused_and_not_repeated() {
        let config = |address: &str| {
            let mut config = ProvenanceConfig::default();
            config.amqp.url = Address::new(address);
            config.postgres.dsn = Address::new(address);
            config.mongodb.uri = Address::new(address);
            config
        };
        for address in ["nonsense", "S3CR3T://u:S3CR3T@h", "mongodb:/S3CR3T", "amqp://S3CR3T:x:y"] {
            let mut config = config(address);
            let errors = config.check_edges();
            assert_eq!(errors.len(), 3, "{address}: {errors:?}");
            assert!(!errors.concat().contains("S3CR3T"), "{errors:?}");
            config.amqp.url_file = Some("/run/url".into());
            config.postgres.dsn_file = Some("/run/dsn".into());
            config.mongodb.uri_file = Some("/run/uri".into());
            assert_eq!(config.check_edges(), Vec::<String>::new(), "the files count");
        }
        assert_eq!(ProvenanceConfig::default().check_edges(), Vec::<String>::new());
    }

    #[test]
    fn an_exchange_can_have_its_own_ranges() {
        let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
        assert_eq!((config.workers().count(), config.check()), (Worker::COUNT, Vec::new()));
        config.ranges = "0-7".parse().unwrap();
        config.exchange_ranges.content = Some("8-9".parse().unwrap());
        config.exchange_ranges.origin = Some(RangeSet::NONE);
        let names = |config: &ProvenanceConfig| -> Vec<String> {
            config.workers().map(|worker| worker.to_string()).collect()
        };
        let few = ProvenanceConfig {
            ranges: "0-1".parse().unwrap(),
            exchange_ranges: ExchangeRanges {
                content: Some("f".parse().unwrap()),
                revision: Some(RangeSet::NONE),
                ..ExchangeRanges::default()
            },
            ..ProvenanceConfig::default()
        };
        let workers = "content_f directory_0 directory_1 origin_0 origin_1 location_0 location_1";
        assert_eq!(names(&few).join(" "), workers);
        let names = names(&config);
        assert_eq!((names.len(), names[..3].join(" ").as_str()), (26, "content_8 content_9 directory_0"));
        assert!(!names.contains(&"origin_0".to_owned()) && config.check().is_empty());
        config.transport = Transport::Embedded;
        assert_eq!(config.check().len(), 3);
    }
}
