//! SIGHUP: reads the configuration again, takes over what can be changed while the process runs, and says what cannot.

use anyhow::{Context, Result};
use orchestrator_subsystem::section::AnyReload;
use serde_json::{Map, Value};

use crate::{
    config::{Config, Sources},
    telemetry::LogFilter,
    topology,
};

/// Keys that need no restart.
const RELOADABLE: &[&str] = &["telemetry.filter"];

/// The running configuration, and the ways to change it.
pub(crate) struct Reload {
    sources: Option<Sources>,
    running: Config,
    filter: LogFilter,
    admin: orchestrator_admin::Reload,
    sections: Vec<(&'static str, AnyReload)>,
}

impl Reload {
    /// `sources` is None for a drop-in, which is configured by its command line alone.
    pub(crate) fn new(
        sources: Option<Sources>,
        running: Config,
        filter: LogFilter,
        admin: orchestrator_admin::Reload,
        sections: Vec<(&'static str, AnyReload)>,
    ) -> Self {
        Self { sources, running, filter, admin, sections }
    }

    /// Does it. A configuration that is refused changes nothing.
    pub(crate) fn carry_out(&mut self) {
        self.admin.request();
        let Some(sources) = &self.sources else {
            tracing::info!(
                "SIGHUP: a drop-in is configured by its command line; there is nothing to read again"
            );
            return;
        };
        match read(sources, &self.filter) {
            Ok(fresh) => {
                let reloaded = self.take_over(&fresh);
                let changed = differences(&self.running, &fresh);
                let (mut taken, waiting): (Vec<_>, Vec<_>) =
                    changed.into_iter().partition(|key| RELOADABLE.contains(&key.as_str()));
                taken.extend(reloaded);
                tracing::info!(?taken, "configuration read again");
                if !waiting.is_empty() {
                    tracing::warn!(keys = ?waiting, "changed in the configuration, but in force only after a restart");
                }
                // What waits is compared with what runs, however often it is read.
                self.running.program.telemetry.filter = fresh.program.telemetry.filter;
            }
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "configuration refused, all stays as it is");
            }
        }
    }

    /// Lets subsystems take over what they can, and returns the keys.
    fn take_over(&mut self, fresh: &Config) -> Vec<String> {
        let mut taken = Vec::new();
        for (name, reload) in &mut self.sections {
            let running = self.running.sections.iter_mut().find(|section| section.name() == *name);
            let fresh = fresh.sections.iter().find(|section| section.name() == *name);
            taken.extend(running.zip(fresh).into_iter().flat_map(|(running, fresh)| reload(running, fresh)));
        }
        taken
    }
}

fn read(sources: &Sources, filter: &LogFilter) -> Result<Config> {
    let fresh = Config::load(sources)?;
    topology::check(&fresh)?;
    filter.set(&fresh.program.telemetry.filter).context("the log filter stays as it is")?;
    Ok(fresh)
}

/// Dotted keys whose values differ.
fn differences(old: &Config, new: &Config) -> Vec<String> {
    let (old, new) = (old.to_json(), new.to_json());
    let mut keys = Vec::new();
    if let (Value::Object(old), Value::Object(new)) = (&old, &new) {
        compare("", old, new, &mut keys);
    }
    keys
}

fn compare(prefix: &str, old: &Map<String, Value>, new: &Map<String, Value>, keys: &mut Vec<String>) {
    let mut names: Vec<_> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match (old.get(name), new.get(name)) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => compare(&key, old, new, keys),
            (old, new) if old != new => keys.push(key),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_key_is_named_once() {
        let mut old = Config::default();
        let mut new = Config::default();
        assert_eq!(differences(&old, &new), Vec::<String>::new());
        new.program.telemetry.filter = "debug".to_owned();
        new.program.admin = Some(orchestrator_admin::AdminConfig::default());
        assert_eq!(differences(&old, &new), ["admin", "telemetry.filter"]);
        old.program.admin.clone_from(&new.program.admin);
        new.program.admin.as_mut().unwrap().chaos = true;
        assert_eq!(differences(&old, &new), ["admin.chaos", "telemetry.filter"]);
    }
}
