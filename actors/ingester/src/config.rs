//! Sections `[[ingester]]` of the configuration.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    edge::redis::Place as RedisPlace,
    presence::check_name,
    source::{Place, Registry},
};

/// An ingester: what it takes frames from, and where workers find it. There may be several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name"]))]
pub struct IngesterConfig {
    /// Its name in Redis, without a colon; empty (drop-in only): its streams' names joined by `_`, and `-ingester`.
    pub name: String,
    /// Where workers connect to, address and port.
    #[schemars(length(min = 1), extend("format" = "address"))]
    pub listen: String,
    /// Where workers are told to connect to, `tcp://host:port`; empty: `tcp://localhost` and the port of `listen`.
    #[schemars(extend("format" = "address"))]
    pub advertise: String,
    /// Redis; a url with a password belongs into `redis_url_file`.
    #[schemars(length(min = 1), extend("format" = "address"))]
    pub redis_url: String,
    /// A file with the url instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_url_file: Option<PathBuf>,
    /// One file that all events are dumped to; without it the parameter `dump_prefix` of the controller decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dump_path: Option<String>,
    /// Bytes that wait in memory for one worker; what is more goes to a file.
    #[schemars(range(min = 1_048_576, max = 1_099_511_627_776_u64))]
    pub egress_bytes_per_peer: u64,
    /// Bytes that wait in files for all workers; when they are used up, the sources are slowed down. 0: no files.
    #[schemars(range(max = 1_125_899_906_842_624_u64))]
    pub spill_bytes: u64,
    /// Where those files are; they have no names, and are gone with the process.
    #[schemars(length(min = 1))]
    pub spill_dir: PathBuf,
    /// What to do when frames are missing.
    pub on_gap: OnGap,
    /// A JSON file that says which build runs, published for people; passed over if it is missing.
    pub build_meta_file: PathBuf,
    /// Its streams, in the order in which a message has them.
    pub stream: Vec<StreamConfig>,
}

/// A stream `[[ingester.stream]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "source"]))]
pub struct StreamConfig {
    /// Its name, as mappings have it.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its protocol, e.g. `stins`, or the original's class name.
    #[schemars(length(min = 1))]
    pub source: String,
    /// Where the source is, e.g. `tcp://detector:9999`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "address"))]
    pub upstream_url: Option<String>,
    /// Where a source that connects to us finds us, address and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "address"))]
    pub listen: Option<String>,
    /// A file that is played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// How fast it is played: `full`, `recorded`, or e.g. `1000/s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<String>,
}

/// What to do when frames are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnGap {
    /// Count and log it; the next frame goes to the next event, as the original does.
    #[default]
    Count,
    /// Each frame goes to the event of its number; an event whose frame is missing gets a stream without parts.
    Align,
}

impl Default for IngesterConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            listen: "127.0.0.1:10000".to_owned(),
            advertise: String::new(),
            redis_url: "redis://localhost:6379/0".to_owned(),
            redis_url_file: None,
            dump_path: None,
            egress_bytes_per_peer: 256 << 20,
            spill_bytes: 8 << 30,
            spill_dir: "/var/tmp".into(),
            on_gap: OnGap::default(),
            build_meta_file: "/etc/build_git_meta.json".into(),
            stream: Vec::new(),
        }
    }
}

impl StreamConfig {
    pub(crate) fn place(&self) -> Place {
        Place {
            upstream_url: self.upstream_url.clone(),
            listen: self.listen.clone(),
            file: self.file.clone(),
            pace: self.pace.clone(),
        }
    }

    /// What a person would look for: address or file.
    pub(crate) fn endpoint(&self) -> String {
        let places = [&self.upstream_url, &self.listen, &self.file];
        places.into_iter().flatten().next().cloned().unwrap_or_default()
    }
}

impl IngesterConfig {
    /// Its name in Redis.
    pub fn name(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let streams: Vec<_> = self.stream.iter().map(|stream| stream.name.as_str()).collect();
        format!("{}-ingester", streams.join("_"))
    }

    /// Where it listens.
    ///
    /// # Errors
    /// It is no address with a port.
    pub fn address(&self) -> Result<SocketAddr, String> {
        let found = self.listen.to_socket_addrs().map(|mut found| found.next());
        match found {
            Ok(Some(address)) => Ok(address),
            _ => Err("no address: write e.g. 0.0.0.0:10000".to_owned()),
        }
    }

    /// Where workers are told to connect to.
    pub fn url(&self) -> String {
        if !self.advertise.is_empty() {
            return self.advertise.clone();
        }
        let port = self.listen.rsplit(':').next().unwrap_or_default();
        format!("tcp://localhost:{port}")
    }

    /// The url of Redis.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(crate) fn redis(&self) -> Result<String, String> {
        match &self.redis_url_file {
            None => Ok(self.redis_url.clone()),
            Some(path) => std::fs::read_to_string(path).map(|url| url.trim().to_owned()).map_err(|error| {
                format!("{}: {error}: make it readable, or unset redis_url_file", path.display())
            }),
        }
    }

    /// What a schema cannot say of all ingesters: everything that the operator has to change. The texts begin with
    /// `section.key = value`.
    pub fn check(all: &[Self], registry: &Registry) -> Vec<String> {
        let mut wrong = Vec::new();
        for (i, one) in all.iter().enumerate() {
            let mut say = |key: &str, value: &str, text: &str| {
                wrong.push(format!("ingester.{i}.{key} = {value}: {text}"))
            };
            if let Err(text) = check_name(&one.name()) {
                say("name", &one.name(), &text);
            }
            if all[..i].iter().any(|other| other.name() == one.name()) {
                say("name", &one.name(), "another ingester has this name: give each its own");
            }
            match one.address() {
                Err(text) => say("listen", &one.listen, &text),
                Ok(address) if all[..i].iter().any(|other| other.address() == Ok(address)) => {
                    say("listen", &one.listen, "another ingester listens there: give each its own port");
                }
                Ok(_) => {}
            }
            // Whatever it is, it is not repeated: it may have a password.
            if let (None, Err(text)) = (&one.redis_url_file, RedisPlace::new(&one.redis_url, "", Uuid::nil()))
            {
                say("redis_url", "this", &text);
            }
            if !one.url().starts_with("tcp://") {
                say("advertise", &one.advertise, "workers know tcp only: write tcp://host:port");
            }
            if one.stream.is_empty() {
                say(
                    "stream",
                    "[]",
                    "an ingester needs a stream: add [[ingester.stream]] with name and source",
                );
            }
            one.check_streams(&mut say, registry);
        }
        wrong
    }

    fn check_streams(&self, say: &mut impl FnMut(&str, &str, &str), registry: &Registry) {
        for (i, stream) in self.stream.iter().enumerate() {
            if self.stream[..i].iter().any(|other| other.name == stream.name) {
                say(
                    &format!("stream.{i}.name"),
                    &stream.name,
                    "another stream has this name: give each its own",
                );
            }
            match registry.supply(&stream.source, &stream.place()) {
                None => {
                    let known = registry.names().collect::<Vec<_>>().join(", ");
                    say(
                        &format!("stream.{i}.source"),
                        &stream.source,
                        &format!("no such source: there are {known}"),
                    );
                }
                Some(Err(error)) => {
                    say(&format!("stream.{i}.source"), &stream.source, &error.to_string());
                }
                Some(Ok(_)) => {}
            }
        }
    }
}
