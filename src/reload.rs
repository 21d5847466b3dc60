//! SIGHUP: reads the configuration again, takes over what can be changed while the process runs, and says what cannot.

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::{
    config::{Config, Sources},
    telemetry::LogFilter,
    topology,
};

/// Keys that need no restart.
const RELOADABLE: &[&str] = &["telemetry.filter"];

/// Those who take changes while they run. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Live {
    /// The admin endpoint reads its files again.
    pub(crate) admin: orchestrator_admin::Reload,
    /// Catalogs follow other rules.
    #[cfg(feature = "catalog")]
    pub(crate) catalog: orchestrator_catalog::Rulebook,
}

/// What is needed to do it.
#[derive(Debug)]
pub(crate) struct Reload {
    sources: Option<Sources>,
    running: Config,
    filter: LogFilter,
    live: Live,
}

impl Reload {
    /// `sources` is None for a drop-in, which is configured by its command line alone.
    pub(crate) fn new(sources: Option<Sources>, running: Config, filter: LogFilter, live: Live) -> Self {
        Self { sources, running, filter, live }
    }

    /// Does it. A configuration that is refused changes nothing.
    pub(crate) fn carry_out(&mut self) {
        self.live.admin.request();
        let Some(sources) = &self.sources else {
            tracing::info!(
                "SIGHUP: a drop-in is configured by its command line; there is nothing to read again"
            );
            return;
        };
        match read(sources, &self.filter) {
            Ok(fresh) => {
                let rules = self.take_rules(&fresh);
                let changed = differences(&self.running, &fresh);
                let (mut taken, waiting): (Vec<_>, Vec<_>) =
                    changed.into_iter().partition(|key| RELOADABLE.contains(&key.as_str()));
                taken.extend(rules);
                tracing::info!(?taken, "configuration read again");
                if !waiting.is_empty() {
                    tracing::warn!(keys = ?waiting, "changed in the configuration, but in force only after a restart");
                }
                // What waits is compared with what runs, however often it is read.
                self.running.telemetry.filter = fresh.telemetry.filter;
            }
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "configuration refused, all stays as it is");
            }
        }
    }
}

impl Reload {
    /// Hands other rules to catalogs that are as they were in all else, and gives the keys.
    #[cfg(feature = "catalog")]
    fn take_rules(&mut self, fresh: &Config) -> Vec<String> {
        let mut taken = Vec::new();
        for running in &mut self.running.catalog {
            let Some(wanted) = fresh.catalog.iter().find(|wanted| wanted.name == running.name) else {
                continue;
            };
            let with_its_rules =
                orchestrator_catalog::CatalogConfig { rule: wanted.rule.clone(), ..running.clone() };
            if *wanted == with_its_rules && *wanted != *running && self.live.catalog.set(wanted) {
                taken.push(format!("catalog.{}.rule", wanted.name));
                *running = with_its_rules;
            }
        }
        taken
    }

    #[cfg(not(feature = "catalog"))]
    #[expect(clippy::unused_self, reason = "there are no rules in this build")]
    fn take_rules(&mut self, _: &Config) -> Vec<String> {
        Vec::new()
    }
}

fn read(sources: &Sources, filter: &LogFilter) -> Result<Config> {
    let fresh = Config::load(sources)?;
    topology::check(&fresh)?;
    filter.set(&fresh.telemetry.filter).context("the log filter stays as it is")?;
    Ok(fresh)
}

/// Dotted keys whose values differ.
fn differences(old: &Config, new: &Config) -> Vec<String> {
    let table = |config: &Config| Table::try_from(config).unwrap_or_default();
    let mut keys = Vec::new();
    compare("", &table(old), &table(new), &mut keys);
    keys
}

fn compare(prefix: &str, old: &Table, new: &Table, keys: &mut Vec<String>) {
    let mut names: Vec<_> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match (old.get(name), new.get(name)) {
            (Some(Value::Table(old)), Some(Value::Table(new))) => compare(&key, old, new, keys),
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
        new.telemetry.filter = "debug".to_owned();
        new.admin = Some(orchestrator_admin::AdminConfig::default());
        assert_eq!(differences(&old, &new), ["admin", "telemetry.filter"]);
        old.admin.clone_from(&new.admin);
        new.admin.as_mut().unwrap().chaos = true;
        assert_eq!(differences(&old, &new), ["admin.chaos", "telemetry.filter"]);
    }
}
