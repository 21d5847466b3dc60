//! The configuration: one section per subsystem; a section that is present is a subsystem that runs.
//!
//! Layers: built-in defaults, then `--config` files in order, then `--set`. What comes later wins key by key.
//! Unknown keys and values of the wrong type are refused; nothing is converted silently.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use config::{File, FileFormat};
use orchestrator_admin::AdminConfig;
use serde::{Deserialize, Serialize};

/// The whole configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Logs.
    pub(crate) telemetry: TelemetryConfig,
    /// The admin endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admin: Option<AdminConfig>,
    /// The queue subsystem.
    #[cfg(feature = "queue")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<orchestrator_queue::QueueConfig>,
}

/// Section `[telemetry]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TelemetryConfig {
    /// How log lines look.
    pub(crate) format: LogFormat,
    /// What is logged, in `tracing-subscriber`'s filter language, e.g. `info,orchestrator_queue=debug`.
    pub(crate) filter: String,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info,actix_server=warn".to_owned() }
    }
}

/// Names of the subsystems compiled in, as used for sections and `--only`.
pub(crate) const SUBSYSTEMS: &[&str] = &[
    #[cfg(feature = "queue")]
    "queue",
];

/// Names of subsystems that this build leaves out, or that are not written yet.
const ABSENT: &[&str] = &[
    #[cfg(not(feature = "queue"))]
    "queue",
];

/// Where the configuration comes from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// `--config` files, in order.
    pub(crate) files: Vec<PathBuf>,
    /// `--set section.key=value`, in order.
    pub(crate) sets: Vec<String>,
    /// `--only`: the one subsystem to run.
    pub(crate) only: Option<String>,
}

impl Config {
    /// Reads all layers.
    ///
    /// # Errors
    /// A file cannot be read or a key or value is refused; the text names file or option, and key.
    pub(crate) fn load(sources: &Sources) -> Result<Self> {
        let mut layers = config::Config::builder();
        for file in &sources.files {
            // Its text is read once: a pipe (`--config <(..)`) gives it only once.
            layers = layers.add_source(File::from_str(&check_file(file)?, FileFormat::Toml));
        }
        for set in &sources.sets {
            layers = layers.add_source(File::from_str(&set_to_toml(set)?, FileFormat::Toml));
        }
        // Back to TOML, whose types are strict: the layering library would take "80" for 80.
        let merged: toml::Table = layers
            .build()
            .and_then(config::Config::try_deserialize)
            .context("cannot merge the configuration")?;
        refuse_absent(&merged)?;
        let mut config: Config =
            merged.try_into().map_err(|error: toml::de::Error| refused("the configuration", &error))?;
        config.assume_sections();
        if let Some(only) = &sources.only {
            config.keep_only(only)?;
        }
        Ok(config)
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

    fn runs_any(&self) -> bool {
        #[cfg(feature = "queue")]
        if self.queue.is_some() {
            return true;
        }
        false
    }

    fn keep_only(&mut self, only: &str) -> Result<()> {
        if !SUBSYSTEMS.contains(&only) {
            bail!(
                "--only {only}: there is no such subsystem in this build; it has: {}",
                SUBSYSTEMS.join(", ")
            );
        }
        #[cfg(feature = "queue")]
        if only == "queue" {
            self.queue.get_or_insert_default();
        } else {
            self.queue = None;
        }
        Ok(())
    }
}

/// Reads one file and checks it by itself, so that an error names its line.
fn check_file(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let table: toml::Table =
        toml::from_str(&text).map_err(|error| refused(&path.display().to_string(), &error))?;
    refuse_absent(&table).with_context(|| path.display().to_string())?;
    toml::from_str::<Config>(&text).map_err(|error| refused(&path.display().to_string(), &error))?;
    Ok(text)
}

fn refused(place: &str, error: &toml::de::Error) -> anyhow::Error {
    anyhow::anyhow!("{place}: {}", error.to_string().trim_end())
}

fn refuse_absent(table: &toml::Table) -> Result<()> {
    if let Some(absent) = ABSENT.iter().find(|name| table.contains_key(**name)) {
        bail!("section [{absent}]: this build leaves that subsystem out; rebuild with --features {absent}");
    }
    Ok(())
}

/// `section.key=value` as a TOML document; a value that is no TOML is taken as a string.
fn set_to_toml(set: &str) -> Result<String> {
    let Some((key, value)) = set.split_once('=') else {
        bail!("--set {set}: write it as section.key=value");
    };
    let plain = format!("{key} = {value}");
    if toml::from_str::<toml::Table>(&plain).is_ok() {
        return Ok(plain);
    }
    let quoted = format!("{key} = {}", toml::Value::String(value.to_owned()));
    toml::from_str::<toml::Table>(&quoted).map_err(|error| refused(&format!("--set {set}"), &error))?;
    Ok(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(sets: &[&str]) -> Result<Config> {
        Config::load(&Sources { sets: sets.iter().map(|s| (*s).to_owned()).collect(), ..Sources::default() })
    }

    #[test]
    fn nothing_means_queue_and_admin() {
        let config = load(&[]).unwrap();
        assert!(config.admin.is_some());
        #[cfg(feature = "queue")]
        assert_eq!(config.queue, Some(orchestrator_queue::QueueConfig::default()));
    }

    #[cfg(feature = "queue")]
    #[test]
    fn sets_are_typed_and_strict() {
        let config = load(&["queue.hold_secs=60", "queue.database=/x/y.db"]).unwrap();
        let queue = config.queue.unwrap();
        assert_eq!((queue.hold_secs, queue.database), (60, PathBuf::from("/x/y.db")));
        assert!(config.admin.is_none(), "a section that is named runs, others do not");
        for bad in [
            "queue.hold_secs=1.9",
            "queue.hold_secs=\"60\"",
            "queue.redeliver_after_lease=yes",
            "queue.hold=1",
            "nonsense.a=1",
            "queue",
        ] {
            assert!(load(&[bad]).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn an_unknown_key_in_a_file_is_named_with_file_and_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[telemetry]\nfilter = \"info\"\nformt = \"json\"\n").unwrap();
        let sources = Sources { files: vec![file.path().to_owned()], ..Sources::default() };
        let error = format!("{:#}", Config::load(&sources).unwrap_err());
        assert!(error.contains("formt") && error.contains("line 3"), "{error}");
        assert!(error.contains(&file.path().display().to_string()), "{error}");
    }
    /// `tests/configuration.rs` checks that the file has every key; here, that it has their defaults.
    #[cfg(feature = "queue")]
    #[test]
    fn the_commented_configuration_shows_the_defaults() {
        let text = include_str!("../config/orchestrator.toml");
        let plain = |line: &str| match line.strip_prefix('#') {
            // The one key whose default cannot be written.
            Some(rest) if rest.starts_with("unix_socket = ") => String::new(),
            Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
            _ => line.to_owned(),
        };
        let text: Vec<_> = text.lines().map(plain).collect();
        let shown: Config = toml::from_str(&text.join("\n")).unwrap();
        let defaults = Config {
            telemetry: TelemetryConfig::default(),
            admin: Some(AdminConfig::default()),
            queue: Some(orchestrator_queue::QueueConfig::default()),
        };
        assert_eq!(shown, defaults);
    }
}
