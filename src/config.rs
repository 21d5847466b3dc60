//! The configuration: one section per subsystem; a section that is present is a subsystem that runs.
//!
//! Layers: built-in defaults, then `--config` files in order, then the environment, then `--set`. What comes later wins
//! key by key. Each source is checked against one schema, which the section types give. Nothing is converted silently, and
//! a configuration that is refused is refused with all its errors at once.
//!
//! A secret is in a file of its own, and a key that ends in `_file` holds the path. The schema marks the keys that are addresses: a
//! password in one is refused, and no text repeats it. It marks what may hold a secret all the same, too: `config print`, the admin
//! endpoint and complaints show `***` in place of a catalog's `token` and of the values of headers.

mod assignment;
mod check;
mod document;
mod entries;
mod environment;
mod explain;
mod layers;
mod links;
mod print;
mod report;
mod schema;
mod secrets;
mod telemetry;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, path::PathBuf};

use anyhow::Result;
use orchestrator_admin::AdminConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::environment::of_process as variables_of_process;
pub(crate) use self::links::LinksConfig;
pub(crate) use self::telemetry::{LogFormat, TelemetryConfig};
use self::{
    layers::Layers,
    report::{Refusal, Report},
    schema::Schema,
};
use crate::redaction::scrubbed;

/// The whole configuration of orchestrator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "orchestrator")]
pub(crate) struct Config {
    /// Logs.
    pub(crate) telemetry: TelemetryConfig,
    /// Connections to brokers, databases and servers.
    pub(crate) links: LinksConfig,
    /// The admin endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admin: Option<AdminConfig>,
    /// The queue subsystem.
    #[cfg(feature = "queue")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<orchestrator_queue::QueueConfig>,
    /// The provenance subsystem.
    #[cfg(feature = "provenance")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provenance: Option<orchestrator_provenance::ProvenanceConfig>,
    /// Ingesters, each with its streams.
    #[cfg(feature = "ingester")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ingester: Vec<orchestrator_ingester::IngesterConfig>,
    /// The producer subsystem.
    #[cfg(feature = "producer")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) producer: Option<orchestrator_producer::ProducerConfig>,
    /// Catalogs, each with its rules.
    #[cfg(feature = "catalog")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) catalog: Vec<orchestrator_catalog::CatalogConfig>,
}

/// Names of the subsystems compiled in, as used for sections and `--only`.
pub(crate) const SUBSYSTEMS: &[&str] = &[
    #[cfg(feature = "queue")]
    "queue",
    #[cfg(feature = "provenance")]
    "provenance",
    #[cfg(feature = "ingester")]
    "ingester",
    #[cfg(feature = "producer")]
    "producer",
    #[cfg(feature = "catalog")]
    "catalog",
];

/// Names of subsystems that exist but that this build leaves out. Each is the name of the feature, too.
const ABSENT: &[&str] = &[
    #[cfg(not(feature = "queue"))]
    "queue",
    #[cfg(not(feature = "provenance"))]
    "provenance",
    #[cfg(not(feature = "ingester"))]
    "ingester",
    #[cfg(not(feature = "producer"))]
    "producer",
    #[cfg(not(feature = "catalog"))]
    "catalog",
];

/// Where the configuration comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// `--config` files, in order.
    pub(crate) files: Vec<PathBuf>,
    /// The environment; only variables that begin with `ORCHESTRATOR__` are looked at.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// `--set section.key=value`, in order.
    pub(crate) sets: Vec<String>,
    /// `--only`: the one subsystem to run.
    pub(crate) only: Option<String>,
}

impl Config {
    /// Reads all layers.
    ///
    /// # Errors
    /// Something is refused; the text has a line for everything that is, with its place and key.
    pub(crate) fn load(sources: &Sources) -> Result<Self> {
        Ok(Self::with_origins(sources)?.0)
    }

    /// The configuration in force as TOML, each key with where its value comes from.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub(crate) fn explained(sources: &Sources) -> Result<String> {
        let (config, merged) = Self::with_origins(sources)?;
        print::print(&config, &merged)
    }

    /// The configuration as whoever may look at it may see it, as JSON.
    pub(crate) fn redacted(&self) -> serde_json::Value {
        let shown = serde_json::to_value(self).unwrap_or_default();
        secrets::redacted(shown, Some(Schema::of::<Self>().root()))
    }

    /// The JSON Schema of a configuration file.
    pub(crate) fn schema() -> String {
        format!("{}\n", Schema::of::<Self>())
    }

    /// All layers, and the sum of all sources that they were made from.
    fn with_origins(sources: &Sources) -> Result<(Self, config::Value)> {
        let schema = Schema::of::<Self>();
        let (merged, mut refusals) = Layers::read(sources, &schema).finish();
        // What was refused is not in the sum: the rest of it can be checked all the same.
        let mut config = Self::default();
        match serde_json::from_value(check::to_json(&merged, Some(schema.root()))) {
            Ok(sum) => config = sum,
            // The schema said that it fits: tell what it did not know.
            Err(error) => refusals.push(layers::locate(&error.to_string(), &merged)),
        }
        config.assume_sections();
        let crossed = cross_check(&config);
        let crossed = crossed.iter().map(|text| layers::locate(text, &merged));
        // What was refused, and is at its default therefore, is told already.
        let told = |key: &str| !key.is_empty() && refusals.iter().any(|refusal| refusal.key == key);
        let crossed: Vec<_> = crossed.filter(|refusal| !told(&refusal.key)).collect();
        refusals.extend(crossed);
        if let Some(only) = &sources.only
            && let Err(refusal) = config.keep_only(only)
        {
            refusals.push(refusal);
        }
        Report::unless_empty(refusals)?;
        Ok((config, merged))
    }

    /// With no subsystem and no admin section from any layer, the queue and the admin endpoint are assumed.
    fn assume_sections(&mut self) {
        if !self.runs_any() && self.admin.is_none() {
            self.admin = Some(AdminConfig::default());
            #[cfg(feature = "queue")]
            {
                self.queue = Some(orchestrator_queue::QueueConfig::default());
            }
        }
    }

    /// Is any subsystem configured?
    pub(crate) fn runs_any(&self) -> bool {
        #[cfg(feature = "queue")]
        if self.queue.is_some() {
            return true;
        }
        #[cfg(feature = "provenance")]
        if self.provenance.is_some() {
            return true;
        }
        #[cfg(feature = "ingester")]
        if !self.ingester.is_empty() {
            return true;
        }
        #[cfg(feature = "producer")]
        if self.producer.is_some() {
            return true;
        }
        #[cfg(feature = "catalog")]
        if !self.catalog.is_empty() {
            return true;
        }
        false
    }

    fn keep_only(&mut self, only: &str) -> Result<(), Refusal> {
        if !SUBSYSTEMS.contains(&only) {
            let place = report::one_line(scrubbed(&format!("--only {only}")));
            let known = if SUBSYSTEMS.is_empty() { "none".to_owned() } else { SUBSYSTEMS.join(", ") };
            let text = format!("there is no such subsystem in this build; it has: {known}");
            return Err(Refusal { place, key: String::new(), text });
        }
        #[cfg(feature = "queue")]
        if only == "queue" {
            self.queue.get_or_insert_default();
        } else {
            self.queue = None;
        }
        #[cfg(feature = "provenance")]
        if only == "provenance" {
            self.provenance.get_or_insert_default();
        } else {
            self.provenance = None;
        }
        #[cfg(feature = "ingester")]
        if only == "ingester" {
            if self.ingester.is_empty() {
                let text = "there is no [[ingester]] to run: configure one with its streams".to_owned();
                return Err(Refusal { place: "--only ingester".to_owned(), key: String::new(), text });
            }
        } else {
            self.ingester.clear();
        }
        #[cfg(feature = "producer")]
        if only == "producer" {
            self.producer.get_or_insert_default();
        } else {
            self.producer = None;
        }
        #[cfg(feature = "catalog")]
        if only == "catalog" {
            if self.catalog.is_empty() {
                let text = "there is no [[catalog]] to run: configure one with its rules".to_owned();
                return Err(Refusal { place: "--only catalog".to_owned(), key: String::new(), text });
            }
        } else {
            self.catalog.clear();
        }
        Ok(())
    }
}

/// What a schema cannot say, asked of each section. An answer begins with `section.key = value`, so that its place can be
/// found.
fn cross_check(config: &Config) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Err(error) = crate::telemetry::check_filter(&config.telemetry.filter) {
        wrong.push(format!("{error}; write it like info,orchestrator_queue=debug"));
    }
    if let Some(Err(error)) = config.admin.as_ref().map(AdminConfig::check) {
        wrong.push(error.to_string());
    }
    #[cfg(feature = "provenance")]
    wrong.extend(config.provenance.iter().flat_map(orchestrator_provenance::ProvenanceConfig::check));
    #[cfg(feature = "ingester")]
    wrong.extend(orchestrator_ingester::check(&config.ingester));
    #[cfg(feature = "producer")]
    wrong.extend(config.producer.iter().flat_map(orchestrator_producer::ProducerConfig::check));
    #[cfg(feature = "catalog")]
    wrong.extend(orchestrator_catalog::check(&config.catalog, &orchestrator_catalog::Names::default()));
    wrong
}
