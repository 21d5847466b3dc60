//! `dranspose ingester -c CLASS -u UPSTREAM_URL -n STREAM` and `dranspose http_ingester -c APP -p
//! PORT -n STREAM`, with the original's environment variables in upper or lower case.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{Args, Subcommand};
use orchestrator_subsystem::{OriginalContext, redaction::may_hold_secret};

use crate::{
    config::{IngesterConfig, StreamConfig},
    error::IngesterError,
};

type Result<T> = std::result::Result<T, IngesterError>;

fn refused(text: impl Into<String>) -> IngesterError {
    IngesterError::Original(text.into())
}

/// Default of `INGESTER_URL` in the original.
const URL: &str = "tcp://localhost:10000";

/// Programs that can be replaced.
#[derive(Debug, Clone, Subcommand)]
pub enum DropIn {
    /// Replace `dranspose ingester`
    DransposeIngester(Arguments),
    /// Replace `dranspose http_ingester`, the ingester for Sardana
    DransposeHttpIngester(HttpArguments),
}

impl DropIn {
    /// Returns the configuration with the original's behaviour.
    ///
    /// # Errors
    /// A class, an app or a variable is invalid; the text says what to do.
    pub(crate) fn config(&self, context: &OriginalContext) -> Result<IngesterConfig> {
        let variables = Variables::new(context);
        let config = match self {
            Self::DransposeIngester(arguments) => arguments.config(&variables),
            Self::DransposeHttpIngester(arguments) => arguments.config(&variables),
        }?;
        // `--set ingester.NAME.KEY=VALUE` needs the name.
        Ok(IngesterConfig { name: config.name(), ..config })
    }
}

/// Command line of `dranspose ingester`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Ingester class, e.g. dranspose.ingesters:ZmqPullSingleIngester, or a class of your own as module:Class
    #[arg(short = 'c', long = "ingesterclass", visible_alias = "class")]
    class: String,
    /// Python interpreter for a class of your own; default: python3 in PATH
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Address of the source, e.g. tcp://detector:9999 [env: UPSTREAM_URL]
    #[arg(short, long)]
    upstream_url: Option<String>,
    /// Name of the stream; the variable is a JSON list, e.g. '["eiger"]' [env: INGESTER_STREAMS]
    #[arg(short, long)]
    name: Option<String>,
}

/// Command line of `dranspose http_ingester`.
#[derive(Debug, Clone, Args)]
pub struct HttpArguments {
    /// Application that receives the posts, e.g. dranspose.ingesters.http_sardana:app
    #[arg(short = 'c', long = "ingesterclass", visible_alias = "class")]
    app: String,
    /// Address to listen on for HTTP posts
    #[arg(long, default_value = "0.0.0.0")]
    host: String,
    /// Port to listen on for HTTP posts
    #[arg(short, long)]
    port: u16,
    /// Name of the stream; the variable is a JSON list, e.g. '["eiger"]' [env: INGESTER_STREAMS]
    #[arg(short, long)]
    name: Option<String>,
}

impl Arguments {
    fn config(&self, variables: &Variables) -> Result<IngesterConfig> {
        let upstream = self.upstream_url.clone().or_else(|| variables.get("UPSTREAM_URL"));
        if let Some(url) = &upstream {
            without_user(url, "the upstream url")?;
        }
        let mut config = variables.config(self.name.as_deref(), |name| StreamConfig {
            name,
            source: class_name(&self.class),
            upstream_url: upstream.clone(),
            ..StreamConfig::default()
        })?;
        if let Some(python) = &self.python {
            config.python.clone_from(python);
        }
        Ok(config)
    }
}

impl HttpArguments {
    fn config(&self, variables: &Variables) -> Result<IngesterConfig> {
        let app = self.app.split(':').next().unwrap_or_default();
        if app.rsplit('.').next() != Some("http_sardana") {
            let text = format!("-c {}: no such app: dranspose.ingesters.http_sardana:app is known", self.app);
            return Err(refused(text));
        }
        variables.config(self.name.as_deref(), |name| StreamConfig {
            name,
            source: "HttpSardanaIngester".to_owned(),
            listen: Some(format!("{}:{}", self.host, self.port)),
            ..StreamConfig::default()
        })
    }
}

/// Removes the package from a name without a colon.
fn class_name(class: &str) -> String {
    match class.split_once(':') {
        Some(_) => class.to_owned(),
        None => class.rsplit('.').next().unwrap_or_default().to_owned(),
    }
}

/// Environment variables, with upper-case names.
struct Variables(BTreeMap<String, String>);

impl Variables {
    fn new(context: &OriginalContext) -> Self {
        Self(context.variables().map(|(name, value)| (name.to_ascii_uppercase(), value.to_owned())).collect())
    }

    fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|value| !value.is_empty()).cloned()
    }

    fn config(
        &self,
        stream: Option<&str>,
        source: impl Fn(String) -> StreamConfig,
    ) -> Result<IngesterConfig> {
        let streams = match (stream, self.get("INGESTER_STREAMS")) {
            (Some(stream), _) => vec![stream.to_owned()],
            (None, Some(list)) => serde_json::from_str(&list).map_err(|_| {
                refused(format!("INGESTER_STREAMS = {list}: write a JSON list, e.g. [\"eiger\"]"))
            })?,
            (None, None) => {
                return Err(refused("no stream: give its name with -n, or set INGESTER_STREAMS"));
            }
        };
        let url = self.get("INGESTER_URL").unwrap_or_else(|| URL.to_owned());
        without_user(&url, "INGESTER_URL")?;
        let port =
            port(&url).ok_or_else(|| refused(format!("INGESTER_URL = {url}: write tcp://host:port")))?;
        let default = IngesterConfig::default();
        Ok(IngesterConfig {
            name: self.get("INGESTER_NAME").unwrap_or_default(),
            listen: format!("0.0.0.0:{port}"),
            advertise: url.trim_end_matches('/').to_owned(),
            redis_url: self
                .get("REDIS_URL")
                .or_else(|| self.get("SERVICE_REDIS_DSN"))
                .unwrap_or(default.redis_url.clone()),
            dump_path: self.get("DUMP_PATH"),
            build_meta_file: self.get("BUILD_META_FILE").map_or(default.build_meta_file.clone(), Into::into),
            stream: streams.into_iter().map(source).collect(),
            ..default
        })
    }
}

/// Refuses an address with a password: ZeroMQ has no users, and the address is shown and published.
fn without_user(url: &str, what: &str) -> Result<()> {
    if may_hold_secret(url) {
        let text = format!("{what} may hold a password, which ZeroMQ does not know: write tcp://host:port");
        return Err(refused(text));
    }
    Ok(())
}

fn port(url: &str) -> Option<u16> {
    url.strip_prefix("tcp://")?.trim_end_matches('/').rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(list: &[(&str, &str)]) -> Variables {
        Variables(list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn stream(name: String) -> StreamConfig {
        StreamConfig { name, source: "stins".to_owned(), ..StreamConfig::default() }
    }

    #[test]
    fn without_variables_the_defaults_are_the_originals() {
        let config = variables(&[]).config(Some("eiger"), stream).unwrap();
        assert_eq!(config.name(), "eiger-ingester");
        assert_eq!((config.listen.as_str(), config.url().as_str()), ("0.0.0.0:10000", URL));
        assert_eq!(config.redis_url, "redis://localhost:6379/0");
    }

    #[test]
    fn variables_set_the_other_keys() {
        let config = variables(&[
            ("INGESTER_URL", "tcp://node7:10010"),
            ("INGESTER_NAME", "mine"),
            ("INGESTER_STREAMS", "[\"a\", \"b\"]"),
            ("SERVICE_REDIS_DSN", "redis://:S3CR3T@r:1/2"),
            ("DUMP_PATH", "/d/x.cbors"),
        ]);
        let config = config.config(None, stream).unwrap();
        let names: Vec<_> = config.stream.iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!((config.name().as_str(), names), ("mine", vec!["a", "b"]));
        assert_eq!((config.listen.as_str(), config.url().as_str()), ("0.0.0.0:10010", "tcp://node7:10010"));
        assert_eq!(
            (config.redis_url.as_str(), config.dump_path.as_deref()),
            ("redis://:S3CR3T@r:1/2", Some("/d/x.cbors"))
        );
    }

    #[test]
    fn an_error_names_the_invalid_variable() {
        let error_of =
            |list: &[(&str, &str)]| format!("{:#}", variables(list).config(None, stream).unwrap_err());
        assert!(error_of(&[]).contains("INGESTER_STREAMS"));
        assert!(error_of(&[("INGESTER_STREAMS", "eiger")]).contains("JSON list"));
        assert!(
            error_of(&[("INGESTER_STREAMS", "[]"), ("INGESTER_URL", "http://x")]).contains("tcp://host:port")
        );
        let error = error_of(&[("INGESTER_STREAMS", "[\"a\"]"), ("INGESTER_URL", "tcp://u:S3CR3T@h:1")]);
        assert!(error.contains("INGESTER_URL may hold a password") && !error.contains("S3CR3T"), "{error}");
        assert_eq!(class_name("dranspose.ingesters.ZmqPullSingleIngester"), "ZmqPullSingleIngester");
        assert_eq!(class_name("my.module:ZmqPullSingleIngester"), "my.module:ZmqPullSingleIngester");
    }
}
