//! Reload of the configuration on SIGHUP: applies the changes that need no restart and logs the others.

use anyhow::{Context, Result};
use serde_json::{Map, Value};

use crate::{
    config::{Config, Sources},
    subsystems::SectionReload,
    telemetry::LogFilter,
    topology,
};

/// Keys that need no restart.
const RELOADABLE: &[&str] = &["telemetry.filter"];

/// The running configuration, and the functions that change it.
pub(crate) struct Reload {
    sources: Option<Sources>,
    running: Config,
    filter: LogFilter,
    admin: orchestrator_admin::Reload,
    sections: Vec<(&'static str, SectionReload)>,
}

impl Reload {
    /// Creates the reload of `running`. `sources` is `None` for a drop-in, which is configured by its command
    /// line alone.
    pub(crate) fn new(
        sources: Option<Sources>,
        running: Config,
        filter: LogFilter,
        admin: orchestrator_admin::Reload,
        sections: Vec<(&'static str, SectionReload)>,
    ) -> Self {
        Self { sources, running, filter, admin, sections }
    }

    /// Reads the sources again and applies the changes. An invalid configuration changes nothing.
    pub(crate) fn run(&mut self) {
        self.admin.request();
        let Some(sources) = &self.sources else {
            tracing::info!("SIGHUP ignored: a drop-in is configured by its command line alone");
            return;
        };
        match read(sources, &self.filter) {
            Ok(fresh) => {
                let reloaded = self.apply(&fresh);
                let changed = differences(&self.running, &fresh);
                let (mut applied, pending): (Vec<_>, Vec<_>) =
                    changed.into_iter().partition(|key| RELOADABLE.contains(&key.as_str()));
                applied.extend(reloaded);
                tracing::info!(?applied, "configuration reloaded");
                if !pending.is_empty() {
                    tracing::warn!(keys = ?pending, "configuration changes need a restart");
                }
                // Pending changes stay different from the running configuration, so that each reload reports
                // them.
                self.running.program.telemetry.filter = fresh.program.telemetry.filter;
                self.admin.succeeded(&pending);
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(error, "cannot reload the configuration: nothing changed");
                self.admin.failed(&error);
            }
        }
    }

    /// Lets the subsystems apply their changes, and returns the keys.
    fn apply(&mut self, fresh: &Config) -> Vec<String> {
        let mut applied = Vec::new();
        for (name, reload) in &mut self.sections {
            let running = self.running.sections.iter_mut().find(|section| section.name() == *name);
            let fresh = fresh.sections.iter().find(|section| section.name() == *name);
            applied
                .extend(running.zip(fresh).into_iter().flat_map(|(running, fresh)| reload(running, fresh)));
        }
        applied
    }
}

fn read(sources: &Sources, filter: &LogFilter) -> Result<Config> {
    let fresh = Config::load(sources)?;
    topology::build(&fresh)?;
    filter.set(&fresh.program.telemetry.filter).context("the log filter is unchanged")?;
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
    fn differences_names_every_changed_key_once() {
        let mut old = Config::default();
        let mut new = Config::default();
        assert_eq!(differences(&old, &new), Vec::<String>::new());
        new.program.telemetry.filter = "debug".to_owned();
        new.program.admin.tokens_file = "tokens".into();
        assert_eq!(differences(&old, &new), ["admin.tokens_file", "telemetry.filter"]);
        old.program.admin.clone_from(&new.program.admin);
        new.program.admin.chaos = true;
        assert_eq!(differences(&old, &new), ["admin.chaos", "telemetry.filter"]);
    }
}
