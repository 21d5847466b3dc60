//! Sections `[[ingester]]` of the configuration.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use orchestrator_edge::{SettingError, process::Environment, read_secret};
use orchestrator_subsystem::{Address, Period, Secret, secret::exposed};
use orchestrator_text::sanitize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    class_path::ClassPath,
    edge::redis::RedisTarget,
    edge::sources::check_class_options,
    ingester_state::check_name,
    on_finished::OnFinished,
    source::{Registry, SourceOptions},
};

/// Most streams of an ingester that has a class of the site.
const CLASS_STREAMS_MAX: usize = 64;

/// An ingester: its sources, its workers' port and its limits. Each section configures one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name"]))]
pub struct IngesterConfig {
    /// Name in Redis, without a colon. Empty (drop-in only): the stream names joined by `_`, and
    /// `-ingester`.
    pub name: String,
    /// Address and port on which workers connect.
    #[schemars(length(min = 1), extend("format" = "address"))]
    pub listen: String,
    /// Address published to workers, `tcp://host:port`. Empty: `tcp://localhost` and the port of
    /// `listen`.
    #[schemars(extend("format" = "address"))]
    pub advertise: String,
    /// URL of Redis, `rediss://` for TLS. Put a URL with a password into `redis_url_file`.
    #[schemars(length(min = 1))]
    pub redis_url: Address,
    /// File with the URL of Redis, in place of `redis_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_url_file: Option<PathBuf>,
    /// File of certificates (PEM) that are trusted for `rediss://`, in place of the public authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_ca_file: Option<PathBuf>,
    /// File to which all events are dumped. Unset: the controller's parameter `dump_prefix`
    /// decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dump_path: Option<String>,
    /// Reaction if the disk is slower than the scan and 64 MiB of events wait for the dump.
    pub dump_overflow: DumpOverflow,
    /// Memory for the messages queued for one worker, bytes. Further messages are spilled to disk.
    #[schemars(range(min = 1_048_576, max = 1_099_511_627_776_u64))]
    pub egress_bytes_per_peer: u64,
    /// Disk space for spilled messages of all workers, bytes. When it is used up, sources are
    /// slowed down. 0: no spilling.
    #[schemars(range(max = 1_125_899_906_842_624_u64))]
    pub spill_bytes: u64,
    /// Directory of the spill files. They are unnamed and vanish with the process.
    #[schemars(length(min = 1))]
    pub spill_dir: PathBuf,
    /// Time after which `orchestrator why` names a worker that has not finished the last event it got,
    /// seconds.
    #[schemars(range(min = 1, max = 86_400))]
    pub worker_idle_secs: u64,
    /// Reaction to missing frames.
    pub on_gap: OnGap,
    /// Job of the queue in this process for each mapping that ended whole. Unset: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_finished: Option<OnFinished>,
    /// JSON file with the build's metadata, published in Redis. Ignored if it is missing.
    pub build_meta_file: PathBuf,
    /// Python interpreter that runs ingester classes of the site. A name without a slash is looked up
    /// in `PATH`. By default, a program in a virtual environment takes the interpreter there.
    #[schemars(length(min = 1))]
    pub python: PathBuf,
    /// Environment variables of these classes, e.g. PYTHONPATH; their values are not shown. They also
    /// get HOME, LANG, LANGUAGE, LC_*, LOGNAME, PATH, SHELL, TMPDIR, TZ, TZDIR and USER of this process,
    /// and the URL of Redis.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
    /// Names of further variables that these classes inherit from this process. `*`: all but
    /// `ORCHESTRATOR_*`, `CREDENTIALS_DIRECTORY`, and those of systemd's protocols.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_pass: Vec<String>,
    /// Streams, in the order in which messages carry them.
    pub stream: Vec<StreamConfig>,
}

/// A stream `[[ingester.stream]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "source"]))]
pub struct StreamConfig {
    /// Name used in mappings.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Source protocol, e.g. `stins`, the original's class name, a class of the site in Python as
    /// `module:Class`, or an application of the site that receives posts as `module:app`.
    #[schemars(length(min = 1))]
    pub source: String,
    /// Address of a source that is dialled, e.g. `tcp://detector:9999`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "address"))]
    pub upstream_url: Option<String>,
    /// Address and port on which a source connects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "address"))]
    pub listen: Option<String>,
    /// File to replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Replay speed: `full`, `recorded`, or a rate such as `1000/s`. Unset: full speed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<String>,
    /// Time without items after which the stream's input is late: a number and `s`, `m`, `h` or `d`. Unset:
    /// it never is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_every: Option<Period>,
}

/// Reaction to missing frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnGap {
    /// Counts and logs the gap. The next frame goes to the next event, as in the original.
    #[default]
    Count,
    /// Sends each frame with the event of its number. An event whose frame is missing gets a stream
    /// without parts.
    Align,
}

/// Reaction to a disk that is slower than the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DumpOverflow {
    /// Events are left out of the dump, and the scan continues.
    #[default]
    Omit,
    /// The scan waits, and the dump has all events, as with the original.
    Block,
}

impl Default for IngesterConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            listen: "127.0.0.1:10000".to_owned(),
            advertise: String::new(),
            redis_url: Address::new("redis://localhost:6379/0"),
            redis_url_file: None,
            redis_ca_file: None,
            dump_path: None,
            egress_bytes_per_peer: 256 << 20,
            dump_overflow: DumpOverflow::default(),
            spill_bytes: 8 << 30,
            spill_dir: "/var/tmp".into(),
            worker_idle_secs: 30,
            on_gap: OnGap::default(),
            on_finished: None,
            build_meta_file: "/etc/build_git_meta.json".into(),
            python: "python3".into(),
            env: BTreeMap::new(),
            env_pass: Vec::new(),
            stream: Vec::new(),
        }
    }
}

impl StreamConfig {
    pub(crate) fn source_options(&self) -> SourceOptions {
        SourceOptions {
            upstream_url: self.upstream_url.clone(),
            listen: self.listen.clone(),
            file: self.file.clone(),
            pace: self.pace.clone(),
        }
    }

    /// Address or file, for operators.
    pub(crate) fn endpoint(&self) -> String {
        let endpoints = [&self.upstream_url, &self.listen, &self.file];
        endpoints.into_iter().flatten().next().cloned().unwrap_or_default()
    }
}

impl IngesterConfig {
    /// Name in Redis.
    pub fn name(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let streams: Vec<_> = self.stream.iter().map(|stream| stream.name.as_str()).collect();
        format!("{}-ingester", streams.join("_"))
    }

    /// Lines for the terminal of an interactive start: the streams, the workers' port, and the command that
    /// shows the state.
    pub(crate) fn greeting(&self) -> String {
        let stream = |stream: &StreamConfig| format!("{} from {}", stream.name, stream.endpoint());
        let streams: Vec<_> = self.stream.iter().map(stream).collect();
        let (name, streams) = (sanitize(self.name()), sanitize(streams.join(", ")));
        let listen = &self.listen;
        format!(
            "  ingester    {name}: {streams} -> workers at {listen}\n              status:       orchestrator ingester status\n"
        )
    }

    /// Address of the workers' port.
    ///
    /// # Errors
    /// `listen` is not an address with a port.
    pub fn address(&self) -> Result<SocketAddr, String> {
        let found = self.listen.to_socket_addrs().map(|mut found| found.next());
        match found {
            Ok(Some(address)) => Ok(address),
            _ => Err("not an address with a port: write e.g. 0.0.0.0:10000".to_owned()),
        }
    }

    /// Address published to workers.
    pub fn url(&self) -> String {
        if !self.advertise.is_empty() {
            return self.advertise.clone();
        }
        let port = self.listen.rsplit(':').next().unwrap_or_default();
        format!("tcp://localhost:{port}")
    }

    /// URL of Redis.
    ///
    /// # Errors
    /// `redis_url_file` cannot be read.
    pub(crate) fn redis(&self) -> Result<String, SettingError> {
        read_secret(self.redis_url_file.as_deref(), self.redis_url.expose(), "ingester.redis_url_file")
    }

    /// Environment of the site's classes.
    pub(crate) fn environment(&self) -> Environment {
        Environment { pass: self.env_pass.clone(), set: exposed(&self.env) }
    }

    /// Returns every error that the JSON schema cannot express. Each text begins with `section.key
    /// = value`.
    pub fn check(all: &[Self], registry: &Registry) -> Vec<String> {
        let mut wrong = Vec::new();
        for (i, config) in all.iter().enumerate() {
            let mut report = |key: &str, value: &str, text: &str| {
                wrong.push(format!("ingester.{i}.{key} = {value}: {text}"))
            };
            if let Err(text) = check_name(&config.name()) {
                report("name", &config.name(), &text);
            }
            if all[..i].iter().any(|other| other.name() == config.name()) {
                report("name", &config.name(), "another ingester has this name: give each its own");
            }
            match config.address() {
                Err(text) => report("listen", &config.listen, &text),
                Ok(address) if all[..i].iter().any(|other| other.address() == Ok(address)) => {
                    report(
                        "listen",
                        &config.listen,
                        "another ingester listens there: give each its own port",
                    );
                }
                Ok(_) => {}
            }
            if let Some((key, value, text)) = config.redis_problem() {
                report(key, &value, &text);
            }
            for (key, name, text) in config.environment().check() {
                report(key, &name, &text);
            }
            for (key, value, text) in config.on_finished.iter().flat_map(OnFinished::check) {
                report(&format!("on_finished.{key}"), value, &text);
            }
            if !config.url().starts_with("tcp://") {
                report(
                    "advertise",
                    &config.advertise,
                    "workers connect over TCP only: write tcp://host:port",
                );
            }
            if config.stream.is_empty() {
                report(
                    "stream",
                    "[]",
                    "an ingester needs a stream: add [[ingester.stream]] with name and source",
                );
            }
            config.check_streams(&mut report, registry);
        }
        wrong
    }

    /// Problem of the URL of Redis, or of the file with its authorities, as key, value and text.
    fn redis_problem(&self) -> Option<(&'static str, String, String)> {
        if self.redis_url_file.is_some() {
            return None;
        }
        let target =
            RedisTarget::new(self.redis_url.expose(), self.redis_ca_file.as_deref(), "", Uuid::nil());
        Some(match target.err()? {
            SettingError::Authorities { path, reason } => {
                ("redis_ca_file", path.display().to_string(), reason)
            }
            // The URL is not repeated, since it may contain a password.
            SettingError::Value(reason) => ("redis_url", "this".to_owned(), reason),
        })
    }

    fn check_streams(&self, report: &mut impl FnMut(&str, &str, &str), registry: &Registry) {
        for (i, stream) in self.stream.iter().enumerate() {
            if self.stream[..i].iter().any(|other| other.name == stream.name) {
                report(
                    &format!("stream.{i}.name"),
                    &stream.name,
                    "another stream has this name: give each its own",
                );
            }
            let sharing = |()| self.check_sharing(stream, registry);
            if let Err(text) = self.check_source(stream, registry).and_then(sharing) {
                report(&format!("stream.{i}.source"), &stream.source, &text);
            }
        }
        if self.stream.len() > CLASS_STREAMS_MAX
            && self.stream.iter().any(|stream| stream.source.contains(':'))
        {
            let text =
                format!("an ingester with a class of your own has at most {CLASS_STREAMS_MAX} streams");
            report("stream", "[..]", &text);
        }
    }

    /// Checks that a source that numbers events can do so.
    fn check_sharing(&self, stream: &StreamConfig, registry: &Registry) -> Result<(), String> {
        let options = stream.source_options();
        let factory = registry.factory(&stream.source, &options).and_then(Result::ok);
        let source = factory.and_then(|factory| (factory.make)(&options).ok());
        if !source.is_some_and(|source| source.numbers_events()) {
            return Ok(());
        }
        if self.stream.len() > 1 {
            return Err(
                "it numbers the events of its ingester: give other streams their own ingester".to_owned()
            );
        }
        match self.on_gap {
            OnGap::Count => Ok(()),
            OnGap::Align => {
                Err("it numbers events, which needs no alignment: set on_gap to count".to_owned())
            }
        }
    }

    /// Checks the source of one stream.
    ///
    /// # Errors
    /// The source is unknown, or its options do not fit; the text says what to write.
    pub(crate) fn check_source(&self, stream: &StreamConfig, registry: &Registry) -> Result<(), String> {
        let options = stream.source_options();
        if let Some(factory) = registry.factory(&stream.source, &options) {
            return factory.map(drop).map_err(|error| error.to_string());
        }
        let Some(class) = ClassPath::parse(&stream.source) else {
            let known = registry.names().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "unknown source: use one of {known}, or a class of your own as module:Class"
            ));
        };
        let class = class?;
        check_class_options(&options).map_err(|error| error.to_string())?;
        let first = self.stream.iter().find(|other| other.source == stream.source);
        let address = |stream: &StreamConfig| (stream.upstream_url.clone(), stream.listen.clone());
        if first.is_some_and(|first| address(first) != address(stream)) {
            let text = "have one process: give them the same upstream_url or listen";
            return Err(format!("all streams of {class} {text}"));
        }
        Ok(())
    }
}
