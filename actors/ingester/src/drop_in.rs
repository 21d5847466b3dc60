//! `dranspose ingester -c CLASS -u UPSTREAM_URL -n STREAM` and `dranspose http_ingester -c APP -p
//! PORT -n STREAM`, with the original's environment variables in upper or lower case. As in the
//! original, a long option may be shortened.

use std::{
    collections::BTreeMap,
    net::ToSocketAddrs,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use orchestrator_edge::process::PASS_ALL;
use orchestrator_subsystem::{Address, OriginalContext, redaction::may_hold_secret};

use crate::{
    class_path::ClassPath,
    config::{DumpOverflow, IngesterConfig, StreamConfig},
    error::IngesterError,
};

type Result<T> = std::result::Result<T, IngesterError>;

fn refused(text: impl Into<String>) -> IngesterError {
    IngesterError::Original(text.into())
}

/// Default of `INGESTER_URL` in the original.
const URL: &str = "tcp://localhost:10000";
/// The original's application for Sardana.
const SARDANA: &str = "dranspose.ingesters.http_sardana:app";
/// Files with the authorities of the system, which the original trusts.
const SYSTEM_AUTHORITIES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Programs that can be replaced.
#[derive(Debug, Clone, Subcommand)]
pub enum DropIn {
    /// Replace `dranspose ingester`
    #[command(infer_long_args = true)]
    DransposeIngester(Arguments),
    /// Replace `dranspose http_ingester`
    #[command(infer_long_args = true)]
    DransposeHttpIngester(HttpArguments),
}

impl DropIn {
    /// The ingester behaves like the original.
    ///
    /// # Errors
    /// A class, an app or a variable is invalid; the text says what to do.
    pub(crate) fn config(&self, context: &OriginalContext) -> Result<IngesterConfig> {
        let variables = Variables::new(context);
        let (mut config, python) = match self {
            Self::DransposeIngester(arguments) => (arguments.config(&variables)?, &arguments.python),
            Self::DransposeHttpIngester(arguments) => (arguments.config(&variables)?, &arguments.python),
        };
        let of_site = |source: &str| ClassPath::without_dranspose(source).contains(':');
        if config.stream.iter().any(|stream| of_site(&stream.source)) {
            // The original runs the class in its own process.
            config.env_pass = vec![PASS_ALL.to_owned()];
            if let Some(python) = python {
                python.clone_into(&mut config.python);
            }
        }
        // `--set ingester.NAME.KEY=VALUE` needs the name.
        Ok(IngesterConfig { name: config.name(), ..config })
    }
}

/// Command line of `dranspose ingester`.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    /// Ingester class, e.g. dranspose.ingesters:ZmqPullSingleIngester, or a class of your own as module:Class
    #[arg(short = 'c', long = "ingesterclass", alias = "class")]
    class: String,
    /// Python interpreter for a class of your own; default: that of this program's
    /// virtual environment, else python3 in PATH
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Address of the source, e.g. tcp://detector:9999 [env: UPSTREAM_URL]
    // In the original, `--u` is short for this option alone; here, commands have `--url`, too.
    #[arg(short, long = "upstream_url", aliases = ["upstream-url", "u"])]
    upstream_url: Option<String>,
    /// Name of the stream; the variable is a JSON list, e.g. '["eiger"]' [env: INGESTER_STREAMS]
    #[arg(short, long)]
    name: Option<String>,
}

/// Command line of `dranspose http_ingester`.
#[derive(Debug, Clone, Args)]
pub struct HttpArguments {
    /// Application that receives the posts: dranspose.ingesters.http_sardana:app, or one of your own as
    /// module:app
    #[arg(short = 'c', long = "ingesterapp", alias = "ingesterclass")]
    app: String,
    /// Python interpreter for an application of your own; default: that of this program's
    /// virtual environment, else python3 in PATH
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
    /// Address to listen on for HTTP posts
    #[arg(long, default_value = "0.0.0.0")]
    host: String,
    /// Port to listen on for HTTP posts
    // In the original, `--p` is short for this option alone.
    #[arg(short, long, alias = "p", default_value_t = 5000)]
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
        variables.config(self.name.as_deref(), |name| StreamConfig {
            name,
            source: class_name(&self.class),
            upstream_url: upstream.clone(),
            ..StreamConfig::default()
        })
    }
}

impl HttpArguments {
    fn config(&self, variables: &Variables) -> Result<IngesterConfig> {
        let source = match self.app.as_str() {
            SARDANA => "HttpSardanaIngester",
            app if app.contains(':') => app,
            app => {
                let text =
                    format!("-c {app}: no application: write {SARDANA}, or one of your own as module:app");
                return Err(refused(text));
            }
        };
        let addresses = (self.host.as_str(), self.port).to_socket_addrs();
        let address = addresses.ok().and_then(|mut found| found.next());
        let address = address.ok_or_else(|| {
            refused(format!("--host {}: no address of this machine: write e.g. 0.0.0.0", self.host))
        })?;
        variables.config(self.name.as_deref(), |name| StreamConfig {
            name,
            source: source.to_owned(),
            listen: Some(address.to_string()),
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
        // In the original, the second name is used only without the first.
        let redis_url = self.get("SERVICE_REDIS_DSN").or_else(|| self.get("REDIS_URL"));
        let redis_url = redis_url.map_or_else(|| default.redis_url.clone(), Address::new);
        let redis_ca_file = redis_url.expose().starts_with("rediss://").then(|| self.authorities()).flatten();
        Ok(IngesterConfig {
            name: self.get("INGESTER_NAME").unwrap_or_default(),
            listen: format!("0.0.0.0:{port}"),
            advertise: url.trim_end_matches('/').to_owned(),
            redis_url,
            redis_ca_file,
            dump_path: self.get("DUMP_PATH"),
            dump_overflow: DumpOverflow::Block,
            build_meta_file: self.get("BUILD_META_FILE").map_or(default.build_meta_file.clone(), Into::into),
            stream: streams.into_iter().map(source).collect(),
            ..default
        })
    }

    /// File with the authorities that the original trusts.
    fn authorities(&self) -> Option<PathBuf> {
        let system = || SYSTEM_AUTHORITIES.iter().map(Path::new).find(|path| path.exists());
        self.get("SSL_CERT_FILE").map(PathBuf::from).or_else(|| system().map(Path::to_owned))
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
        assert_eq!(config.redis_url.expose(), "redis://localhost:6379/0");
    }

    #[test]
    fn variables_set_the_other_keys() {
        let config = variables(&[
            ("INGESTER_URL", "tcp://node7:10010"),
            ("INGESTER_NAME", "mine"),
            ("INGESTER_STREAMS", "[\"a\", \"b\"]"),
            ("SERVICE_REDIS_DSN", "redis://:S3CR3T@r:1/2"),
            ("REDIS_URL", "redis://other"),
            ("DUMP_PATH", "/d/x.cbors"),
        ]);
        let config = config.config(None, stream).unwrap();
        let names: Vec<_> = config.stream.iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!((config.name().as_str(), names), ("mine", vec!["a", "b"]));
        assert_eq!((config.listen.as_str(), config.url().as_str()), ("0.0.0.0:10010", "tcp://node7:10010"));
        assert_eq!(
            (config.redis_url.expose(), config.dump_path.as_deref()),
            ("redis://:S3CR3T@r:1/2", Some("/d/x.cbors"))
        );
    }

    #[test]
    fn authorities_are_those_of_openssl_and_only_for_tls() {
        let file = |url: &str, list: &[(&str, &str)]| {
            let list = [list, &[("REDIS_URL", url)]].concat();
            variables(&list).config(Some("eiger"), stream).unwrap().redis_ca_file
        };
        let given = [("SSL_CERT_FILE", "/site/ca.pem")];
        assert_eq!(file("rediss://r:1/2", &given).as_deref(), Some(Path::new("/site/ca.pem")));
        assert_eq!(file("redis://r:1/2", &given), None);
        let system = SYSTEM_AUTHORITIES.map(Path::new).into_iter().find(|path| path.exists());
        assert_eq!(file("rediss://r:1/2", &[]).as_deref(), system);
    }

    #[test]
    fn an_application_listens_where_the_original_does() {
        let arguments = |app: &str, host: &str| HttpArguments {
            app: app.to_owned(),
            python: None,
            host: host.to_owned(),
            port: 5000,
            name: Some("s".to_owned()),
        };
        for (app, host, source, listen) in [
            (SARDANA, "0.0.0.0", "HttpSardanaIngester", "0.0.0.0:5000"),
            ("my.http_sardana:app", "::1", "my.http_sardana:app", "[::1]:5000"),
        ] {
            let config = arguments(app, host).config(&variables(&[])).unwrap();
            let stream = &config.stream[0];
            assert_eq!((stream.source.as_str(), stream.listen.as_deref()), (source, Some(listen)));
        }
        let error = arguments("http_sardana", "0.0.0.0").config(&variables(&[])).unwrap_err().to_string();
        assert!(error.contains("module:app"), "{error}");
        let error = arguments(SARDANA, "no such host").config(&variables(&[])).unwrap_err().to_string();
        assert!(error.contains("--host no such host"), "{error}");
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
