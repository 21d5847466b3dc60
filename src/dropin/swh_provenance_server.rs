//! The server of Software Heritage's provenance storage: no arguments, its configuration in the YAML file that
//! `SWH_CONFIG_FILENAME` names (contract §5).

mod mongo_address;

use std::{collections::BTreeMap, fmt, path::Path};

use anyhow::{Context, Result, bail};
use clap::Args;
use orchestrator_provenance::{ProvenanceConfig, Transport, WriterKind};
use serde::Deserialize;

/// The variable that names the file.
const FILE: &str = "SWH_CONFIG_FILENAME";

/// Its command line.
#[derive(Debug, Clone, Args)]
pub(crate) struct Arguments {}

/// The file, as far as the server looks at it; whatever else is there belongs to others.
#[derive(Debug, Deserialize)]
struct File {
    provenance: Option<Provenance>,
}

#[derive(Debug, Deserialize)]
struct Provenance {
    rabbitmq: Option<Rabbitmq>,
}

#[derive(Debug, Deserialize)]
struct Rabbitmq {
    url: Option<String>,
    storage_config: Option<Storage>,
    batch_size: Option<u32>,
    prefetch_count: Option<u16>,
}

#[derive(Debug, Deserialize)]
struct Storage {
    cls: Option<String>,
    db: Option<Database>,
    engine: Option<String>,
}

/// A connection string, or its parts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Database {
    Dsn(String),
    Parts(BTreeMap<String, Part>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Part {
    Truth(bool),
    Number(u32),
    Text(String),
    Texts(Vec<String>),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(truth) => truth.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Texts(texts) => f.write_str(&texts.join(",")),
        }
    }
}

impl Arguments {
    pub(super) fn config(&self) -> Result<ProvenanceConfig> {
        let Some(path) = std::env::var_os(FILE) else {
            bail!("{FILE} is not set: let it name the YAML file of the server");
        };
        let path = Path::new(&path);
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("{FILE}: cannot read {}", path.display()))?;
        translate(&text).with_context(|| path.display().to_string())
    }
}

/// The original's file as a configuration. What is missing is said in the original's words.
fn translate(text: &str) -> Result<ProvenanceConfig> {
    let file: File = serde_saphyr::from_str(text).map_err(|error| anyhow::anyhow!("{error}"))?;
    let missing = |what: &str| format!("Missing '{what}' configuration");
    let provenance = file.provenance.with_context(|| missing("provenance"))?;
    let rabbitmq = provenance.rabbitmq.with_context(|| missing("provenance.rabbitmq"))?;
    let storage = rabbitmq.storage_config.with_context(|| missing("provenance.rabbitmq.storage_config"))?;
    let database = || storage.db.with_context(|| missing("provenance.rabbitmq.storage_config.db"));
    let mut config = ProvenanceConfig { transport: Transport::Amqp, ..ProvenanceConfig::default() };
    config.amqp.url = rabbitmq.url.with_context(|| missing("provenance.rabbitmq.url"))?;
    match storage.cls.as_deref() {
        Some("postgresql") => {
            config.writer.kind = WriterKind::Postgres;
            config.postgres.dsn = dsn(database()?);
        }
        Some("mongodb") => {
            if storage.engine.as_deref().is_some_and(|engine| engine != "pymongo") {
                bail!("storage_config.engine is not pymongo: there is no other that keeps rows");
            }
            let Database::Parts(parts) = database()? else {
                bail!("storage_config.db of cls mongodb is a text: give its parts, dbname, host, port, ..");
            };
            config.writer.kind = WriterKind::Mongodb;
            (config.mongodb.uri, config.mongodb.database) = mongo_address::of(parts)?;
        }
        other => {
            bail!("storage_config.cls is {}: use postgresql or mongodb", other.unwrap_or("missing"));
        }
    }
    config.batch = rabbitmq.batch_size.unwrap_or(config.batch);
    config.prefetch = rabbitmq.prefetch_count.unwrap_or(config.prefetch);
    if config.batch == 0 || config.prefetch == 0 {
        bail!("batch_size and prefetch_count are at least 1");
    }
    Ok(config)
}

/// A connection string as libpq reads it.
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
    fn the_originals_file() {
        let config = translate(WHOLE).unwrap();
        assert_eq!((config.batch, config.prefetch), (50, 100));
        assert_eq!(config.amqp.url, "amqp://me:secret@broker:5672/%2f");
        assert_eq!(config.postgres.dsn, "host=db dbname=provenance");
        assert_eq!((config.transport, config.writer.kind), (Transport::Amqp, WriterKind::Postgres));
        let parts =
            WHOLE.replace("'host=db dbname=provenance'", "{host: db, port: 5432, password: \"it's\"}");
        assert_eq!(translate(&parts).unwrap().postgres.dsn, r"host='db' password='it\'s' port='5432'");
    }

    #[test]
    fn the_originals_file_with_mongodb() {
        let text = WHOLE.replace(
            "{cls: postgresql, db: 'host=db dbname=provenance'}",
            "{cls: mongodb, db: {dbname: swh, host: db, port: 27018}}",
        );
        let config = translate(&text).unwrap();
        assert_eq!((config.transport, config.writer.kind), (Transport::Amqp, WriterKind::Mongodb));
        assert_eq!((&*config.mongodb.uri, &*config.mongodb.database), ("mongodb://db:27018", "swh"));
    }

    #[test]
    fn what_is_missing_is_said_as_the_original_says_it() {
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
        ] {
            let error = translate(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
