//! Section `[provenance]` of the configuration.

mod stores;

use std::{fmt, path::PathBuf};

use orchestrator_edge::{amqp::Broker, read_secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    edge::amqp::Topology,
    method::Exchange,
    policy::{RangeSet, Ranges, Routing, Worker},
};
pub use stores::{MongoConfig, PostgresConfig, SqliteConfig};

/// What the provenance storage works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProvenanceConfig {
    /// Ranges whose queues this process consumes, e.g. `0-7` or `0-3,c`; several processes may share a broker's.
    pub ranges: RangeSet,
    /// Other ranges of single exchanges.
    pub exchange_ranges: ExchangeRanges,
    /// Rows that a worker writes together, unless one message has more.
    #[schemars(range(min = 1, max = 10_000))]
    pub batch: u32,
    /// Messages of each queue that are in hand at the most.
    #[schemars(range(min = 1, max = 10_000))]
    pub prefetch: u16,
    /// How a row's range is found; all clients of a store must agree.
    pub routing: Routing,
    /// How rows reach the workers.
    pub transport: Transport,
    /// The file that keeps rows which can never be stored, with the embedded transport; a broker keeps them itself.
    pub dead_letters: PathBuf,
    /// Calls of the client.
    pub client: ClientConfig,
    /// The broker.
    pub amqp: AmqpConfig,
    /// Where rows are kept.
    pub writer: WriterConfig,
    /// The PostgreSQL store.
    pub postgres: PostgresConfig,
    /// The MongoDB store.
    pub mongodb: MongoConfig,
    /// The SQLite store.
    pub sqlite: SqliteConfig,
}

/// Section `[provenance.exchange_ranges]`: what is not named has the ranges of all; `none` leaves an exchange to other processes.
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

/// How rows reach the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Straight to the workers of this process; needs no broker.
    #[default]
    Embedded,
    /// Through RabbitMQ, as the original.
    Amqp,
}

/// Section `[provenance.client]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClientConfig {
    /// Rows of a message at the most.
    #[schemars(range(min = 1, max = 10_000))]
    pub batch: u32,
    /// Responses that the broker sends ahead of their acknowledgement.
    #[schemars(range(min = 1, max = 10_000))]
    pub prefetch: u16,
    /// How long a call waits for the next response at least, seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub wait_min_secs: u32,
    /// How much longer it waits for each batch that its rows fill, seconds.
    #[schemars(range(min = 0, max = 86_400))]
    pub wait_per_batch_secs: u32,
}

/// Section `[provenance.amqp]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AmqpConfig {
    /// The broker, `amqps://` for TLS; a password of its own belongs into `url_file`.
    #[schemars(length(min = 1), extend("format" = "address"))]
    pub url: String,
    /// A file with the url instead, for one with a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// A file of authorities (PEM) that are trusted in place of the public ones, for `amqps://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// What exchanges and queues are made of; all servers and clients of a broker must agree.
    pub topology: Topology,
}

/// Section `[provenance.writer]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WriterConfig {
    /// Which store.
    pub kind: WriterKind,
}

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriterKind {
    /// A file; needs no server.
    #[default]
    Sqlite,
    /// The original's tables in PostgreSQL; `orchestrator provenance init` makes them.
    Postgres,
    /// The original's documents in MongoDB; nothing has to be made first.
    Mongodb,
}

/// Stores of this build.
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
    /// What a schema cannot say: everything that the operator has to change. The texts begin with `section.key = value`.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.transport == Transport::Embedded {
            let elsewhere =
                "without a broker nobody has the other ranges; set transport = \"amqp\", or leave";
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
                "provenance.ranges = {}: no range of any exchange is left for this process: name some",
                self.ranges
            ));
        }
        wrong.extend(self.check_edges());
        if self.amqp.url.contains('@') && !self.amqp.url.contains("//guest:guest@") {
            wrong.push(format!("provenance.amqp.url = ..: {}", stores::hide("url_file")));
        }
        if self.postgres.contains_password() {
            wrong.push(format!("provenance.postgres.dsn = ..: {}", stores::hide("dsn_file")));
        }
        if self.mongodb.contains_password() {
            wrong.push(format!("provenance.mongodb.uri = ..: {}", stores::hide("uri_file")));
        }
        wrong
    }

    /// Checks that this build has the store and the transport, and that each address can be read. Files that hold an address are
    /// read when it is used. The texts begin with `section.key = ..` and do not repeat an address, which may hold a password.
    pub fn check_edges(&self) -> Vec<String> {
        let Self { amqp, .. } = self;
        let mut wrong = self.missing_stores(BUILT);
        if amqp.url_file.is_none() && Broker::new(&amqp.url, "").is_err() {
            let advice = "write amqp://HOST:PORT/VHOST, or amqps:// for TLS";
            wrong.push(format!("provenance.amqp.url = ..: this is no address of a broker: {advice}"));
        }
        #[cfg(feature = "postgres")]
        wrong.extend(self.postgres.check().map(|reason| format!("provenance.postgres.dsn = ..: {reason}")));
        #[cfg(feature = "mongodb")]
        wrong.extend(self.mongodb.check().map(|reason| format!("provenance.mongodb.uri = ..: {reason}")));
        wrong
    }

    /// Refuses what needs a store that is not among those `built`.
    fn missing_stores(&self, built: &[WriterKind]) -> Vec<String> {
        let (kind, mut wrong) = (self.writer.kind, Vec::new());
        if !built.contains(&kind) {
            wrong.push(format!(
                "provenance.writer.kind = {kind}: this build has no such store: build with the feature provenance-{kind}, or choose another"
            ));
        }
        if self.transport == Transport::Embedded && !built.contains(&WriterKind::Sqlite) {
            let advice = "build with the feature provenance-sqlite, or set transport = \"amqp\"";
            wrong.push(format!(
                "provenance.transport = embedded: this build has no SQLite, which keeps the rows that cannot be stored: {advice}"
            ));
        }
        wrong
    }

    /// The workers of this process, in the order of the pool.
    pub fn workers(&self) -> impl Iterator<Item = Worker> {
        let ranges = Ranges::new(self.ranges);
        self.exchange_ranges.set().fold(ranges, |all, (exchange, own)| all.with(exchange, own)).workers()
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
    /// The broker's url.
    ///
    /// # Errors
    /// The file that holds it cannot be read.
    pub fn target(&self) -> Result<String, String> {
        read_secret(self.url_file.as_deref(), &self.url, "provenance.amqp.url_file")
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
            url: "amqp://guest:guest@127.0.0.1:5672/%2f".to_owned(),
            url_file: None,
            ca_file: None,
            topology: Topology::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_the_build_lacks_is_refused() {
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
            config.amqp.url = address.to_owned();
            config.postgres.dsn = address.to_owned();
            config.mongodb.uri = address.to_owned();
            config
        };
        for address in ["nonsense", "S3CR3T://u:S3CR3T@h", "mongodb:/S3CR3T", "amqp://S3CR3T:x:y"] {
            let mut config = config(address);
            let told = config.check_edges();
            assert_eq!(told.len(), 3, "{address}: {told:?}");
            assert!(!told.concat().contains("S3CR3T"), "{told:?}");
            config.amqp.url_file = Some("/run/url".into());
            config.postgres.dsn_file = Some("/run/dsn".into());
            config.mongodb.uri_file = Some("/run/uri".into());
            assert_eq!(config.check_edges(), Vec::<String>::new(), "the files count");
        }
        assert_eq!(ProvenanceConfig::default().check_edges(), Vec::<String>::new());
    }

    #[test]
    fn an_exchange_may_have_ranges_of_its_own() {
        let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
        assert_eq!((config.workers().count(), config.check()), (Worker::COUNT, Vec::new()));
        config.ranges = "0-7".parse().unwrap();
        config.exchange_ranges.content = Some("8-9".parse().unwrap());
        config.exchange_ranges.origin = Some(RangeSet::NONE);
        let names: Vec<_> = config.workers().map(|worker| worker.to_string()).collect();
        assert_eq!((names.len(), names[..3].join(" ").as_str()), (26, "content_8 content_9 directory_0"));
        assert!(!names.contains(&"origin_0".to_owned()) && config.check().is_empty());
        config.transport = Transport::Embedded;
        assert_eq!(config.check().len(), 3);
    }
}
