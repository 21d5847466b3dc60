//! Software Heritage's provenance storage, configured by the original's YAML files (CONTRACT PF07
//! to PF10). The server reads the file that `SWH_CONFIG_FILENAME` names; the client is acted as by
//! commands with `--swh-config`.

mod mongo_address;
mod part;

use std::{collections::BTreeMap, path::Path};

use clap::{Args, Subcommand};
use orchestrator_subsystem::{Address, OriginalContext, yaml};
use serde::Deserialize;

use self::part::{Part, Result, refused};
use crate::{
    config::{ProvenanceConfig, Transport, WriterKind},
    error::ProvenanceError,
};

/// Variable that names the file.
const FILE: &str = "SWH_CONFIG_FILENAME";

/// Programs that this subsystem replaces.
#[derive(Debug, Clone, Subcommand)]
pub enum DropIn {
    /// Run in place of the server of Software Heritage's provenance storage, which takes its requests from
    /// RabbitMQ
    ///
    /// Reads the YAML file that the environment variable SWH_CONFIG_FILENAME names.
    SwhProvenanceServer(Arguments),
}

/// Command line of the server, which has no arguments.
#[derive(Debug, Clone, Args)]
pub struct Arguments {}

/// Configuration file; keys of other programs are ignored.
#[derive(Debug, Deserialize)]
struct ConfigFile {
    provenance: Option<Provenance>,
}

#[derive(Debug, Deserialize)]
struct Provenance {
    rabbitmq: Option<Rabbitmq>,
    storage: Option<Class>,
}

/// Section of the client, of which the class decides about the keys.
#[derive(Debug, Deserialize)]
struct Class {
    cls: Option<String>,
}

/// The file with a client of the class `rabbitmq`.
#[derive(Debug, Deserialize)]
struct ClientFile {
    provenance: ClientProvenance,
}

#[derive(Debug, Deserialize)]
struct ClientProvenance {
    storage: ClientSection,
}

#[derive(Debug, Deserialize)]
struct Rabbitmq {
    url: Option<String>,
    storage_config: Option<Storage>,
    batch_size: Option<u32>,
    prefetch_count: Option<u16>,
}

/// Section of the client. Its keys are the arguments of the original's class, so an unknown key is
/// an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientSection {
    #[serde(rename = "cls")]
    _cls: String,
    url: Option<String>,
    storage_config: Option<Storage>,
    batch_size: Option<u32>,
    prefetch_count: Option<u16>,
    wait_min: Option<f64>,
    wait_per_batch: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Storage {
    cls: Option<String>,
    db: Option<Database>,
    engine: Option<String>,
}

/// Connection string, or its parts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Database {
    Dsn(String),
    Parts(BTreeMap<String, Part>),
}

impl Arguments {
    pub(crate) fn config(&self, context: &OriginalContext) -> Result<ProvenanceConfig> {
        let Some(path) = context.variable(FILE) else {
            return Err(refused(format!("{FILE} is not set: let it name the YAML file of the server")));
        };
        let path = Path::new(path);
        read(path, FILE, translate)
    }
}

/// Returns the configuration of a client that acts as the original's client with the file at
/// `path`.
///
/// # Errors
/// The file is invalid or unreadable; a missing part is named in the original's words.
pub(crate) fn client(path: &Path) -> Result<ProvenanceConfig> {
    read(path, "--swh-config", translate_client)
}

/// Translates the file that `key` names.
fn read(path: &Path, key: &str, translate: fn(&str) -> Result<ProvenanceConfig>) -> Result<ProvenanceConfig> {
    let path_shown = path.display();
    let text = orchestrator_edge::read_text(path)
        .map_err(|error| refused(format!("{key}: cannot read {path_shown}: {error}")))?;
    translate(&text).map_err(|error| refused(format!("{path_shown}: {error}")))
}

fn missing(what: &str) -> ProvenanceError {
    refused(format!("Missing '{what}' configuration"))
}

/// Server and client share this section.
fn provenance(text: &str) -> Result<Provenance> {
    let file: ConfigFile = yaml::read(text).map_err(refused)?;
    file.provenance.ok_or_else(|| missing("provenance"))
}

fn translate_client(text: &str) -> Result<ProvenanceConfig> {
    let storage = provenance(text)?.storage.ok_or_else(|| missing("provenance.storage"))?;
    if storage.cls.as_deref() != Some("rabbitmq") {
        let found = storage.cls.as_deref().unwrap_or("missing");
        return Err(refused(format!("provenance.storage.cls is {found}: use rabbitmq")));
    }
    let ClientFile { provenance: ClientProvenance { storage: client } } =
        yaml::read(text).map_err(refused)?;
    let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
    config.amqp.url = Address::new(client.url.ok_or_else(|| missing("provenance.storage.url"))?);
    store(&mut config, client.storage_config, "provenance.storage")?;
    let ours = &mut config.client;
    ours.batch = client.batch_size.unwrap_or(ours.batch);
    ours.prefetch = client.prefetch_count.unwrap_or(ours.prefetch);
    if ours.batch == 0 || ours.prefetch == 0 {
        return Err(refused("batch_size and prefetch_count are at least 1"));
    }
    // The keys here are whole seconds, so fractions are rounded up. The cast saturates.
    let seconds = |value: Option<f64>, default| value.map_or(default, |value| value.ceil() as u32);
    ours.wait_min_secs = seconds(client.wait_min, ours.wait_min_secs);
    ours.wait_per_batch_secs = seconds(client.wait_per_batch, ours.wait_per_batch_secs);
    addressed(config)
}

/// Translates the server's file. A missing part is named in the original's words.
fn translate(text: &str) -> Result<ProvenanceConfig> {
    let rabbitmq = provenance(text)?.rabbitmq.ok_or_else(|| missing("provenance.rabbitmq"))?;
    let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
    config.amqp.url = Address::new(rabbitmq.url.ok_or_else(|| missing("provenance.rabbitmq.url"))?);
    store(&mut config, rabbitmq.storage_config, "provenance.rabbitmq")?;
    config.batch = rabbitmq.batch_size.unwrap_or(config.batch);
    config.prefetch = rabbitmq.prefetch_count.unwrap_or(config.prefetch);
    if config.batch == 0 || config.prefetch == 0 {
        return Err(refused("batch_size and prefetch_count are at least 1"));
    }
    addressed(config)
}

/// Checks that this build has the store and that the addresses are valid. A driver would quote an invalid
/// address with its password.
fn addressed(config: ProvenanceConfig) -> Result<ProvenanceConfig> {
    match config.check_edges().first() {
        Some(wrong) => Err(refused(wrong)),
        None => Ok(config),
    }
}

/// Sets the store that `section` names.
fn store(config: &mut ProvenanceConfig, storage: Option<Storage>, section: &str) -> Result<()> {
    let missing = |what: &str| missing(&format!("{section}.storage_config{what}"));
    let storage = storage.ok_or_else(|| missing(""))?;
    let database = || storage.db.ok_or_else(|| missing(".db"));
    match storage.cls.as_deref() {
        Some("postgresql") => {
            config.writer.kind = WriterKind::Postgres;
            config.postgres.dsn = Address::new(dsn(database()?));
        }
        Some("mongodb") => {
            if storage.engine.as_deref().is_some_and(|engine| engine != "pymongo") {
                return Err(refused("storage_config.engine is not pymongo: use pymongo or leave it out"));
            }
            let Database::Parts(parts) = database()? else {
                return Err(refused(
                    "storage_config.db of cls mongodb is a text: give its parts, dbname, host, port, ..",
                ));
            };
            config.writer.kind = WriterKind::Mongodb;
            let (uri, database) = mongo_address::of(parts)?;
            (config.mongodb.uri, config.mongodb.database) = (Address::new(uri), database);
        }
        other => {
            let found = other.unwrap_or("missing");
            return Err(refused(format!("storage_config.cls is {found}: use postgresql or mongodb")));
        }
    }
    Ok(())
}

/// Connection string in libpq's format.
fn dsn(database: Database) -> String {
    match database {
        Database::Dsn(dsn) => dsn,
        Database::Parts(parts) => {
            let quoted = |(key, part): (String, Part)| {
                let value = part.to_string().replace('\\', "\\\\").replace('\'', "\\'");
                format!("{key}='{value}'")
            };
            parts.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "
provenance:
  storage: {cls: whatever}
  rabbitmq:
    url: amqp://me:secret@broker:5672/%2f
    batch_size: 50
    storage_config: {cls: postgresql, db: 'host=db dbname=provenance'}
";

    #[test]
    fn the_original_server_file_is_translated() {
        let config = translate(WHOLE).unwrap();
        assert_eq!((config.batch, config.prefetch), (50, 100));
        assert_eq!(config.amqp.url.expose(), "amqp://me:secret@broker:5672/%2f");
        assert_eq!(config.postgres.dsn.expose(), "host=db dbname=provenance");
        assert_eq!((config.transport, config.writer.kind), (Transport::Amqp, WriterKind::Postgres));
        let parts =
            WHOLE.replace("'host=db dbname=provenance'", "{host: db, port: 5432, password: \"it's\"}");
        assert_eq!(
            translate(&parts).unwrap().postgres.dsn.expose(),
            r"host='db' password='it\'s' port='5432'"
        );
    }

    #[test]
    fn the_original_client_file_is_translated() {
        let text = "
provenance:
  storage:
    cls: rabbitmq
    url: amqp://me@broker/%2f
    storage_config: {cls: postgresql, db: dbname=provenance}
    batch_size: 10
    prefetch_count: 20
    wait_min: 0.5
    wait_per_batch: 3
";
        let config = translate_client(text).unwrap();
        assert_eq!((config.transport, config.writer.kind), (Transport::Amqp, WriterKind::Postgres));
        assert_eq!(config.amqp.url.expose(), "amqp://me@broker/%2f");
        assert_eq!(config.postgres.dsn.expose(), "dbname=provenance");
        let client = &config.client;
        assert_eq!((client.batch, client.prefetch), (10, 20));
        assert_eq!((client.wait_min_secs, client.wait_per_batch_secs), (1, 3));
        assert_eq!((config.batch, config.prefetch), (100, 100), "these are the server's");
        let short = text.split("    batch_size").next().unwrap();
        assert_eq!(translate_client(short).unwrap().client, ProvenanceConfig::default().client);
        for (text, words) in [
            ("other: 1".to_owned(), "Missing 'provenance' configuration"),
            ("provenance: {rabbitmq: {}}".to_owned(), "Missing 'provenance.storage' configuration"),
            (text.replace("cls: rabbitmq", "cls: postgresql"), "provenance.storage.cls is postgresql"),
            (text.replace("    url: amqp://me@broker/%2f\n", ""), "Missing 'provenance.storage.url'"),
            (text.replace("storage_config: {", "#"), "Missing 'provenance.storage.storage_config'"),
            (text.replace(", db: ", ", dbb: "), "Missing 'provenance.storage.storage_config.db'"),
            (text.replace("wait_min", "wait_max"), "this key is unknown; known are cls, url"),
            (text.replace("batch_size: 10", "batch_size: 0"), "at least 1"),
        ] {
            let error = format!("{:#}", translate_client(&text).unwrap_err());
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn the_original_server_file_with_mongodb_is_translated() {
        let text = WHOLE.replace(
            "{cls: postgresql, db: 'host=db dbname=provenance'}",
            "{cls: mongodb, db: {dbname: swh, host: db, port: 27018}}",
        );
        let config = translate(&text).unwrap();
        assert_eq!((config.transport, config.writer.kind), (Transport::Amqp, WriterKind::Mongodb));
        assert_eq!((config.mongodb.uri.expose(), &*config.mongodb.database), ("mongodb://db:27018", "swh"));
    }

    #[test]
    fn a_missing_key_is_reported_in_the_original_words() {
        for (text, words) in [
            ("other: 1", "Missing 'provenance' configuration"),
            ("provenance: {}", "Missing 'provenance.rabbitmq' configuration"),
            (
                "provenance: {rabbitmq: {url: x}}",
                "Missing 'provenance.rabbitmq.storage_config' configuration",
            ),
            (
                "provenance: {rabbitmq: {storage_config: {cls: postgresql, db: x}}}",
                "Missing 'provenance.rabbitmq.url'",
            ),
            ("provenance: {rabbitmq: {url: x, storage_config: {cls: postgresql}}}", "storage_config.db"),
            ("provenance: {rabbitmq: {url: x, storage_config: {cls: remote, db: x}}}", "cls is remote"),
            (
                "provenance: {rabbitmq: {url: x, storage_config: {cls: mongodb, engine: mongomock, db: {dbname: p}}}}",
                "engine is not pymongo",
            ),
            ("provenance: {rabbitmq: {url: x, storage_config: {cls: mongodb, db: x}}}", "is a text"),
            ("provenance: {rabbitmq: {url: x, storage_config: {cls: mongodb, db: {}}}}", "no dbname"),
            ("provenance: [", "line"),
            ("provenance: {rabbitmq: {url: 'amqp://me:secret@x'}", "line"),
        ] {
            let error = translate(text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
