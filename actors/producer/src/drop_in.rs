//! Command line and YAML file of the original, `runner client CONFIG.yaml` (CONTRACT SF05 to SF07). Unknown
//! keys are ignored with a warning each, as the original ignores them.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use orchestrator_subsystem::{Address, OriginalContext, percent::encode, yaml};
use orchestrator_text::sanitize_to;
use serde_json::{Map, Value};

use crate::{
    config::{Compat, ProducerConfig},
    error::ProducerError,
};

type Result<T> = std::result::Result<T, ProducerError>;

fn refused(text: impl Into<String>) -> ProducerError {
    ProducerError::Original(text.into())
}

const FAKTORY: &str = "faktory-connection-info";
const DATABASE: &str = "db-connection-info";
const COLLECTIONS: &str = "tangle-collections";

/// Programs that the producer replaces.
#[derive(Debug, Clone, Subcommand)]
pub enum DropIn {
    /// Replace the job producer of the tanglenomicon, `runner client`
    Fproducer(Arguments),
}

/// Arguments of the original, and three options of its replacement.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Configuration file of the original, in YAML
    #[arg(value_name = "CONFIG.yaml")]
    config: PathBuf,
    /// Reproduce the original's selection of jobs exactly, including its errors
    #[arg(long, conflicts_with = "until_done")]
    strict: bool,
    /// Exit with code 0 when the TCN in `max_tcn` is complete, instead of waiting for it to be raised
    #[arg(long)]
    until_done: bool,
    /// Create missing indexes in the collection of tangles before the first job
    #[arg(long)]
    ensure_indexes: bool,
}

impl Arguments {
    /// Returns the configuration.
    ///
    /// # Errors
    /// The file cannot be used. The text names the file and the key.
    pub(crate) fn config(&self, context: &mut OriginalContext) -> Result<ProducerConfig> {
        let config = read(&self.config, context)?;
        let compat = if self.strict { Compat::Strict } else { Compat::Default };
        let Self { until_done, ensure_indexes, .. } = *self;
        Ok(ProducerConfig { compat, until_done, ensure_indexes, ..config })
    }
}

/// Reads the original's file. Each unknown key is a warning.
///
/// # Errors
/// The file cannot be used. The text names the file and the key.
pub(crate) fn read(path: &Path, context: &mut OriginalContext) -> Result<ProducerConfig> {
    let text = orchestrator_edge::read_text(path)
        .map_err(|error| refused(format!("cannot read {}: {error}", path.display())))?;
    let (mut unknown, file) = (Vec::new(), path.display());
    let config = translate(&text, &mut unknown).map_err(|error| refused(format!("{file}: {error}")))?;
    unknown.iter().for_each(|unknown| context.warn(format!("{file}: {unknown}")));
    Ok(config)
}

/// Translates the file and adds the unknown keys to `unknown`.
fn translate(text: &str, unknown: &mut Vec<String>) -> Result<ProducerConfig> {
    let whole: Value = yaml::read(text).map_err(refused)?;
    let Value::Object(whole) = whole else {
        return Err(refused(format!("it has no sections: write {FAKTORY}: {{domain: .., port: ..}}")));
    };
    note_unknown(&whole, &[FAKTORY, DATABASE, COLLECTIONS], "", unknown);
    let faktory = Section::find(&whole, FAKTORY, &["domain", "port"], unknown)?;
    let database =
        Section::find(&whole, DATABASE, &["database", "domain", "password", "port", "user"], unknown)?;
    let collections =
        Section::find(&whole, COLLECTIONS, &["col_name", "page_size", "stencil_col_name"], unknown)?;
    let mut config = ProducerConfig::default();
    config.faktory.url = Address::new(faktory.faktory_url()?);
    let hosts = database.hosts()?;
    // Write concern and retries are set by the client, not by the address.
    config.mongodb.uri = Address::new(match database.credentials()? {
        Some((user, password)) => {
            format!("mongodb://{}:{}@{hosts}/?authSource=admin", encode(&user), encode(&password))
        }
        None => format!("mongodb://{hosts}/"),
    });
    orchestrator_edge::mongodb::check_address(config.mongodb.uri.expose()).map_err(|_| {
        refused(format!(
            "{DATABASE}: domain and port are no valid address: write the name of a host, or HOST:PORT,HOST"
        ))
    })?;
    config.mongodb.database = database.text("database")?;
    config.mongodb.stencils = collections.text("stencil_col_name")?;
    config.mongodb.tangles = collections.text("col_name")?;
    config.page_size = collections.number("page_size", u32::MAX)?;
    Ok(config)
}

/// Section of the file.
struct Section<'a> {
    name: &'a str,
    keys: &'a Map<String, Value>,
}

impl<'a> Section<'a> {
    fn find(
        whole: &'a Map<String, Value>,
        name: &'a str,
        all: &[&str],
        unknown: &mut Vec<String>,
    ) -> Result<Self> {
        match whole.get(name) {
            Some(Value::Object(keys)) => {
                note_unknown(keys, all, &format!("{name}."), unknown);
                Ok(Self { name, keys })
            }
            found => {
                let wrong = if found.is_some() { "it is no section" } else { "it is missing" };
                Err(refused(format!("{name}: {wrong}: write {{{}}}", all.join(": .., ") + ": ..")))
            }
        }
    }

    fn value(&self, key: &str) -> Result<&Value> {
        self.keys.get(key).ok_or_else(|| refused(format!("{}.{key}: it is missing", self.name)))
    }

    /// Text that is not empty.
    fn text(&self, key: &str) -> Result<String> {
        let wrong = |what: &str| refused(format!("{}.{key}: {what}", self.name));
        match self.value(key)? {
            Value::String(text) if text.is_empty() => Err(wrong("it is empty: write a value")),
            Value::String(text) => Ok(text.clone()),
            Value::Number(_) | Value::Bool(_) => Err(wrong("it is no text: put it in quotes")),
            _ => Err(wrong("it is no text: write a text")),
        }
    }

    /// None if both are blank, as in the original's `misc/config.yaml`.
    fn credentials(&self) -> Result<Option<(String, String)>> {
        let is_blank = |key: &str| {
            let value = self.value(key)?;
            Ok::<_, ProducerError>(value.is_null() || value.as_str().is_some_and(str::is_empty))
        };
        match (is_blank("user")?, is_blank("password")?) {
            (true, true) => Ok(None),
            (false, false) => Ok(Some((self.text("user")?, self.text("password")?))),
            (user, _) => {
                let key = if user { "user" } else { "password" };
                Err(refused(format!("{}.{key}: it is empty: write user and password, or neither", self.name)))
            }
        }
    }

    /// From 1 to `max`; the number may be written as a text.
    fn number(&self, key: &str, max: u32) -> Result<u32> {
        let number = match self.value(key)? {
            Value::Number(number) => number.as_u64(),
            Value::String(digits) => digits.trim().parse().ok(),
            _ => None,
        };
        let fits = number.and_then(|number| u32::try_from(number).ok()).filter(|n| (1..=max).contains(n));
        fits.ok_or_else(|| refused(format!("{}.{key}: write a whole number from 1 to {max}", self.name)))
    }

    /// Hosts of a replica set. As in the original, `port` is that of the last one: `a:27017,b` and 27018.
    fn hosts(&self) -> Result<String> {
        let domain = self.text("domain")?;
        let Some((others, last)) = domain.rsplit_once(',') else { return self.address() };
        if domain.contains(|c: char| c.is_whitespace() || "/?#@".contains(c)) || last.contains(':') {
            return Err(refused(format!("{}.domain: write HOST:PORT,HOST", self.name)));
        }
        Ok(format!("{others},{last}:{}", self.number("port", u16::MAX.into())?))
    }

    /// As in the original, `domain` may begin with `:PASSWORD@`.
    fn faktory_url(&self) -> Result<String> {
        let domain = self.text("domain")?;
        let (credentials, host) = domain.split_at(domain.rfind('@').map_or(0, |at| at + 1));
        if credentials.contains(|c: char| c.is_whitespace() || "/?#[]".contains(c)) {
            let what = "the password has white space or one of / ? # [ ], which the original cannot send";
            return Err(refused(format!("{}.domain: {what}", self.name)));
        }
        Ok(format!("tcp://{credentials}{}", self.address_of(host)?))
    }

    /// `domain` and `port` as `HOST:PORT`.
    fn address(&self) -> Result<String> {
        self.address_of(&self.text("domain")?)
    }

    fn address_of(&self, host: &str) -> Result<String> {
        let port = self.number("port", u16::MAX.into())?;
        let invalid = |c: char| c.is_whitespace() || "/?#@,[]".contains(c);
        if host.is_empty() || host.contains(invalid) {
            return Err(refused(format!("{}.domain: write the name of one host", self.name)));
        }
        Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
    }
}

/// Adds a text for each unknown key, without its value.
fn note_unknown(keys: &Map<String, Value>, all: &[&str], section: &str, unknown: &mut Vec<String>) {
    let others = keys.keys().filter(|key| !all.contains(&key.as_str()));
    unknown.extend(others.map(|key| {
        let key = sanitize_to(key, 100);
        format!("{section}{key}: unknown key, ignored; known are {}", all.join(", "))
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "
faktory-connection-info: {port: 7419, domain: faktory}
db-connection-info: {domain: mongo, port: 27017, user: root, password: 'p@ss/ 1', database: tanglenomicon}
tangle-collections: {stencil_col_name: arborescent_stencils, col_name: arborescent_tangles, page_size: 500}
";

    fn translate(text: &str) -> Result<ProducerConfig> {
        super::translate(text, &mut Vec::new())
    }

    #[test]
    fn unknown_keys_are_noted_without_their_values() {
        let text = WHOLE
            .replace("port: 27017", "port: 27017, authSource: s3cr3t")
            .replace("page_size", "x: {y: 1}, page_size");
        let mut unknown = Vec::new();
        let config = super::translate(&format!("{text}\nlogging: {{level: debug}}\n"), &mut unknown).unwrap();
        assert_eq!(config, translate(WHOLE).unwrap());
        let keys: Vec<_> = unknown.iter().map(|text| text.split(": ").next().unwrap()).collect();
        assert_eq!(keys, ["logging", "db-connection-info.authSource", "tangle-collections.x"]);
        assert!(unknown[0].ends_with(
            "unknown key, ignored; known are faktory-connection-info, db-connection-info, tangle-collections"
        ));
        assert!(!unknown.iter().any(|text| text.contains("s3cr3t")), "{unknown:?}");
    }

    #[test]
    fn the_originals_file_is_translated() {
        let config = translate(WHOLE).unwrap();
        assert_eq!(config.faktory.url.expose(), "tcp://faktory:7419");
        assert_eq!(config.mongodb.uri.expose(), "mongodb://root:p%40ss%2F%201@mongo:27017/?authSource=admin");
        assert_eq!(config.mongodb.endpoint(), "mongodb://mongo:27017/tanglenomicon");
        let (stencils, tangles) = (config.mongodb.stencils, config.mongodb.tangles);
        assert_eq!((&*stencils, &*tangles), ("arborescent_stencils", "arborescent_tangles"));
        assert_eq!(config.page_size, 500);
        let other =
            WHOLE.replace("page_size: 500", "page_size: '7'").replace("domain: faktory", "domain: '::1'");
        let config = translate(&other).unwrap();
        assert_eq!((config.page_size, config.faktory.url.expose()), (7, "tcp://[::1]:7419"));
        let secret = WHOLE.replace("domain: faktory", "domain: ':s3cret@::1'");
        assert_eq!(translate(&secret).unwrap().faktory.url.expose(), "tcp://:s3cret@[::1]:7419");
    }

    #[test]
    fn blank_credentials_hosts_and_large_pages_are_taken_over() {
        let text = "
faktory-connection-info:
    port: 7419
    domain: faktory
db-connection-info:
    domain: mongo
    port: 27017
    user:
    password:
    database: tanglenomicon
tangle-collections:
    stencil_col_name: arborescent_stencils
    col_name: arborescent_tangles
    page_size: 500
";
        let uri = |text: &str| translate(text).unwrap().mongodb.uri.expose().to_owned();
        assert_eq!(uri(text), "mongodb://mongo:27017/");
        assert_eq!(uri(&text.replace("user:", "user: ''")), "mongodb://mongo:27017/");
        let several = WHOLE.replace("domain: mongo", "domain: 'a:27018,b,c'");
        assert_eq!(uri(&several), "mongodb://root:p%40ss%2F%201@a:27018,b,c:27017/?authSource=admin");
        let config = translate(&WHOLE.replace("page_size: 500", "page_size: 5000000")).unwrap();
        assert_eq!(config.page_size, 5_000_000);
    }

    #[test]
    fn an_invalid_file_is_refused_by_key() {
        for (from, to, words) in [
            ("faktory-conn", "factory-conn", "faktory-connection-info: it is missing: write {domain"),
            (
                "db-connection-info: {",
                "#",
                "db-connection-info: it is missing: write {database: .., domain: ..",
            ),
            (
                "{port: 7419, domain: faktory}",
                "[]",
                "faktory-connection-info: it is no section: write {domain",
            ),
            ("domain: mongo, ", "", "db-connection-info.domain: it is missing"),
            ("domain: mongo", "domain: ''", "db-connection-info.domain: it is empty"),
            ("domain: mongo", "domain: 'a b'", "db-connection-info.domain: write the name of one host"),
            ("domain: mongo", "domain: 'a,b:1'", "db-connection-info.domain: write HOST:PORT,HOST"),
            ("domain: mongo", "domain: 'a,@b'", "db-connection-info.domain: write HOST:PORT,HOST"),
            ("domain: mongo", "domain: 'a:x,b'", "db-connection-info: domain and port are no valid address"),
            (
                "domain: faktory",
                "domain: 'a,b'",
                "faktory-connection-info.domain: write the name of one host",
            ),
            (
                "domain: faktory",
                "domain: ':a/b@h'",
                "faktory-connection-info.domain: the password has white space or",
            ),
            (
                "domain: faktory",
                "domain: ':a@'",
                "faktory-connection-info.domain: write the name of one host",
            ),
            ("user: root", "user: 7", "db-connection-info.user: it is no text: put it in quotes"),
            ("user: root", "user: null", "db-connection-info.user: it is empty: write user and password"),
            ("password: 'p@ss/ 1'", "password:", "db-connection-info.password: it is empty: write user and"),
            (
                "port: 7419",
                "port: 70000",
                "faktory-connection-info.port: write a whole number from 1 to 65535",
            ),
            ("port: 27017", "port: 2.5", "db-connection-info.port: write a whole number"),
            (
                "page_size: 500",
                "page_size: 0",
                "tangle-collections.page_size: write a whole number from 1 to",
            ),
            ("page_size: 500", "pagesize: 500", "tangle-collections.page_size: it is missing"),
            ("page_size: 500}", "page_size: 500", "line"),
        ] {
            let error = format!("{:#}", translate(&WHOLE.replace(from, to)).unwrap_err());
            assert!(error.contains(words) && !error.contains("p@ss"), "{from} -> {to}: {error}");
        }
        assert!(translate("7").unwrap_err().to_string().contains("no sections"));
    }
}
