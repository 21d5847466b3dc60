//! The configuration. A subsystem runs if its section is present; the queue runs if there is none. The admin
//! endpoint always runs.
//!
//! The layers are the defaults, the `--config` files in order, the environment and `--set`. A later layer
//! wins key by key. Each source is checked against one schema, generated from the section types. Values are
//! not converted, and all errors are reported at once.
//!
//! A secret is in a separate file, whose path is the value of a key that ends with `_file`. A password in an
//! address is an error, and no message quotes it. `config print`, the admin endpoint and error messages show
//! `***` for other secrets, such as a catalog's `token`.

mod assignment;
mod check;
mod document;
mod entries;
mod environment;
mod explain;
mod exposed;
pub(crate) mod init;
mod layers;
mod links;
mod missing_files;
mod overrides;
mod print;
mod program;
pub(crate) mod report;
mod schema;
mod secrets;
mod telemetry;
#[cfg(test)]
mod tests;
mod validate;
mod value_path;

use anyhow::Result;
use orchestrator_admin::Binding;
use orchestrator_subsystem::{redaction::redact, secret::with_secrets};

use self::{
    layers::Layers,
    report::{Diagnostic, InvalidConfig},
    schema::Schema,
};
pub(crate) use self::{layers::Sources, program::ProgramConfig, telemetry::TelemetryConfig};
use crate::subsystems::{self, SUBSYSTEMS, Section};

/// The whole configuration of orchestrator.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Config {
    /// Sections of the program itself.
    pub(crate) program: ProgramConfig,
    /// Sections of the configured subsystems, in the order of [`SUBSYSTEMS`].
    pub(crate) sections: Vec<Section>,
    /// Effect of an address of the admin endpoint that is in use.
    pub(crate) admin_binding: Binding,
    /// True if no source has a section of a subsystem.
    pub(crate) is_default: bool,
    /// Lines for the log at the start.
    pub(crate) warnings: Vec<String>,
}

impl Config {
    /// Loads the configuration from all layers.
    ///
    /// # Errors
    /// The configuration is invalid. The text has one line for each error, with its position and key.
    pub(crate) fn load(sources: &Sources) -> Result<Self> {
        Ok(Self::with_origins(sources)?.0)
    }

    /// Formats the effective configuration as TOML, each key with the source of its value.
    ///
    /// # Errors
    /// The same as [`Config::load`].
    pub(crate) fn print_effective(sources: &Sources) -> Result<String> {
        let (config, merged) = Self::with_origins(sources)?;
        print::print(&config.redacted(), &merged)
    }

    /// The same as JSON: the configuration, and the source of each key by its dotted path.
    ///
    /// # Errors
    /// Every error, each with its position and key.
    pub(crate) fn effective_json(sources: &Sources) -> Result<serde_json::Value> {
        let (config, merged) = Self::with_origins(sources)?;
        Ok(print::json(config.redacted(), &merged))
    }

    /// Reads a configuration that is valid by its schema.
    fn from_json(mut whole: serde_json::Value) -> serde_json::Result<Self> {
        let mut sections = Vec::new();
        for subsystem in SUBSYSTEMS {
            let value = whole.as_object_mut().and_then(|whole| whole.remove(subsystem.name()));
            if let Some(value) = value {
                sections.extend(subsystem.section(value)?);
            }
        }
        Ok(Self { program: serde_json::from_value(whole)?, sections, ..Self::default() })
    }

    /// Includes secrets. A section that JSON cannot represent is null.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        with_secrets(|| self.serialized())
    }

    fn serialized(&self) -> serde_json::Value {
        let mut whole = serde_json::to_value(&self.program).unwrap_or_default();
        for section in &self.sections {
            whole[section.name()] = section.to_json().unwrap_or_default();
        }
        whole
    }

    /// JSON without secrets.
    pub(crate) fn redacted(&self) -> serde_json::Value {
        secrets::redacted(self.serialized())
    }

    /// JSON Schema of a configuration file.
    pub(crate) fn schema() -> String {
        format!("{}\n", Schema::whole())
    }

    /// Loads the configuration from all layers and collects all errors: of layers, schema, types and
    /// sections. Returns the configuration and the merged sources with the origins of values.
    fn with_origins(sources: &Sources) -> Result<(Self, config::Value)> {
        let schema = Schema::whole();
        let (mut merged, mut diagnostics) = Layers::read(sources, &schema).finish();
        let missing = if sources.ignores_missing_files {
            missing_files::leave_out(&mut merged, &schema)
        } else {
            Vec::new()
        };
        // Invalid values are not in `merged`, so the rest can be checked further.
        let mut config = Self::default();
        match Self::from_json(check::to_json(&merged, Some(schema.root()))) {
            Ok(valid) => config = valid,
            // The schema does not express every rule of the section types.
            Err(error) => diagnostics.push(layers::locate(&error.to_string(), &merged)),
        }
        config.add_default_sections();
        if !layers::is_set(&merged, "admin", "listen") {
            config.admin_binding = Binding::DefaultPort;
        }
        let semantic = config.check_semantics();
        let semantic = semantic.iter().map(|text| layers::locate(text, &merged));
        // A key with an invalid value has its default here and is reported already.
        let is_reported =
            |key: &str| !key.is_empty() && diagnostics.iter().any(|diagnostic| diagnostic.key == key);
        let semantic: Vec<_> = semantic.filter(|diagnostic| !is_reported(&diagnostic.key)).collect();
        diagnostics.extend(semantic);
        if let Some(only) = &sources.only
            && let Err(diagnostic) = config.keep_only(only)
        {
            diagnostics.push(diagnostic);
        }
        config.warnings.extend(missing);
        config.warnings.extend(exposed::warnings(&merged, &schema, &sources.files));
        InvalidConfig::unless_empty(diagnostics)?;
        Ok((config, merged))
    }

    /// Adds the default sections if no layer has a section of a subsystem.
    fn add_default_sections(&mut self) {
        self.is_default = self.sections.is_empty();
        if self.is_default {
            let default = SUBSYSTEMS.iter().filter(|subsystem| subsystem.runs_by_default());
            self.sections.extend(default.filter_map(|subsystem| subsystem.default_section().ok()));
        }
    }

    fn keep_only(&mut self, only: &str) -> Result<(), Diagnostic> {
        let diagnostic = |text| Diagnostic {
            position: report::one_line(redact(&format!("--only {only}"))),
            key: String::new(),
            text,
        };
        let Some(subsystem) = subsystems::find(only) else {
            let known =
                if SUBSYSTEMS.is_empty() { "none".to_owned() } else { subsystems::names().join(", ") };
            return Err(diagnostic(format!("there is no such subsystem in this build; it has: {known}")));
        };
        self.sections.retain(|section| section.name() == only);
        if self.sections.is_empty() {
            self.sections.push(subsystem.default_section().map_err(diagnostic)?);
        }
        Ok(())
    }

    /// Errors that the schema cannot express. Each begins with `section.key = value`, from which its position
    /// is found.
    fn check_semantics(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Err(error) = crate::telemetry::check_filter(&self.program.telemetry.filter) {
            wrong.push(format!("{error}; write it like info,orchestrator_queue=debug"));
        }
        if let Err(error) = self.program.admin.check() {
            wrong.push(error.to_string());
        }
        #[cfg(feature = "hooks")]
        wrong.extend(orchestrator_hooks::check(&self.program.hook));
        wrong.extend(self.sections.iter().flat_map(|section| section.check()));
        wrong
    }
}
