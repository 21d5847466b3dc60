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
mod validate;

use std::{ffi::OsString, path::PathBuf};

use anyhow::Result;
use orchestrator_admin::AdminConfig;
use orchestrator_subsystem::{ConfigArguments, Section, redaction::scrubbed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::links::LinksConfig;
pub(crate) use self::telemetry::{LogFormat, TelemetryConfig};
use self::{
    layers::Layers,
    report::{Refusal, Report},
    schema::Schema,
};
use crate::subsystems::{self, SUBSYSTEMS};

/// The whole configuration of orchestrator.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Config {
    /// The part that is no subsystem's.
    pub(crate) program: ProgramConfig,
    /// Sections of the subsystems that run, in the order of the list of subsystems.
    pub(crate) sections: Vec<Section>,
}

/// Sections that are no subsystem's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "orchestrator", description = "The whole configuration of orchestrator.")]
pub(crate) struct ProgramConfig {
    /// Logs.
    pub(crate) telemetry: TelemetryConfig,
    /// Connections to brokers, databases and servers.
    pub(crate) links: LinksConfig,
    /// The admin endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admin: Option<AdminConfig>,
}

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

impl Sources {
    /// The sources that a command line names, with the environment.
    pub(crate) fn new(arguments: &ConfigArguments, only: Option<&str>) -> Self {
        Self {
            files: arguments.config.clone(),
            environment: environment::of_process(),
            sets: arguments.set.clone(),
            only: only.map(str::to_owned),
        }
    }
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

    /// Reads a configuration that its schema allows.
    fn from_json(mut whole: serde_json::Value) -> serde_json::Result<Self> {
        let mut sections = Vec::new();
        for subsystem in SUBSYSTEMS {
            let value = whole.as_object_mut().and_then(|whole| whole.remove(subsystem.name()));
            if let Some(value) = value {
                sections.extend(subsystem.section(value)?);
            }
        }
        Ok(Self { program: serde_json::from_value(whole)?, sections })
    }

    /// Returns the configuration as JSON, secrets included; a section that JSON cannot express is null.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let mut whole = serde_json::to_value(&self.program).unwrap_or_default();
        for section in &self.sections {
            whole[section.name()] = section.to_json().unwrap_or_default();
        }
        whole
    }

    /// The configuration as whoever may look at it may see it, as JSON.
    pub(crate) fn redacted(&self) -> serde_json::Value {
        secrets::redacted(self.to_json(), Some(Schema::whole().root()))
    }

    /// The JSON Schema of a configuration file.
    pub(crate) fn schema() -> String {
        format!("{}\n", Schema::whole())
    }

    /// All layers, and the sum of all sources that they were made from.
    fn with_origins(sources: &Sources) -> Result<(Self, config::Value)> {
        let schema = Schema::whole();
        let (merged, mut refusals) = Layers::read(sources, &schema).finish();
        // What was refused is not in the sum: the rest of it can be checked all the same.
        let mut config = Self::default();
        match Self::from_json(check::to_json(&merged, Some(schema.root()))) {
            Ok(sum) => config = sum,
            // The schema said that it fits: tell what it did not know.
            Err(error) => refusals.push(layers::locate(&error.to_string(), &merged)),
        }
        config.assume_sections();
        let crossed = config.cross_check();
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

    /// Assumes the default sections where no layer names a subsystem or the admin endpoint.
    fn assume_sections(&mut self) {
        if self.sections.is_empty() && self.program.admin.is_none() {
            self.program.admin = Some(AdminConfig::default());
            let assumed = SUBSYSTEMS.iter().filter(|subsystem| subsystem.runs_by_default());
            self.sections.extend(assumed.filter_map(|subsystem| subsystem.default_section().ok()));
        }
    }

    fn keep_only(&mut self, only: &str) -> Result<(), Refusal> {
        let refusal = |text| Refusal {
            place: report::one_line(scrubbed(&format!("--only {only}"))),
            key: String::new(),
            text,
        };
        let Some(subsystem) = subsystems::find(only) else {
            let known =
                if SUBSYSTEMS.is_empty() { "none".to_owned() } else { subsystems::names().join(", ") };
            return Err(refusal(format!("there is no such subsystem in this build; it has: {known}")));
        };
        self.sections.retain(|section| section.name() == only);
        if self.sections.is_empty() {
            self.sections.push(subsystem.default_section().map_err(refusal)?);
        }
        Ok(())
    }

    /// Returns what a schema cannot refuse. Each text begins with `section.key = value`, so that its place can be found.
    fn cross_check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Err(error) = crate::telemetry::check_filter(&self.program.telemetry.filter) {
            wrong.push(format!("{error}; write it like info,orchestrator_queue=debug"));
        }
        if let Some(Err(error)) = self.program.admin.as_ref().map(AdminConfig::check) {
            wrong.push(error.to_string());
        }
        wrong.extend(self.sections.iter().flat_map(Section::check));
        wrong
    }
}
