//! The supervision tree of a configuration.

use std::{path::PathBuf, time::Duration};

use orchestrator_admin::{AdminConfig, ProgramInfo};
use orchestrator_subsystem::{BackupSet, ProgressSource};
use orchestrator_supervise::{Backoff, Limits, Strategy, SupervisorSpec};

use crate::{
    config::Config,
    subsystems::{self, SUBSYSTEMS, SectionReload},
};

/// Name of the root supervisor, the first segment of every path.
pub(crate) const ROOT: &str = "orchestrator";
/// Path of the admin endpoint.
pub(crate) const ADMIN: &str = "orchestrator/admin";

/// Delays between the tries of a subsystem that was given up.
const RETRY: Backoff = Backoff { first: Duration::from_secs(10), max: Duration::from_mins(10) };

/// The tree of a configuration, with the functions that reload it.
pub(crate) struct Topology {
    pub(crate) root: SupervisorSpec,
    /// Requests that the admin endpoint reads its files again.
    pub(crate) admin: orchestrator_admin::Reload,
    /// Reload functions of the sections, by the subsystem's name.
    pub(crate) sections: Vec<(&'static str, SectionReload)>,
}

/// Builds and checks the tree of `config`, without opening a file or connection. The admin endpoint is the
/// first child, so that it starts before the first subsystem and stops after the last one. Subsystems stop
/// side by side. The process ends once every subsystem was given up, with or without the endpoint.
///
/// # Errors
/// The configuration cannot be used. The text says what the operator has to change.
pub(crate) fn build(config: &Config) -> anyhow::Result<Topology> {
    let known = subsystems::names();
    anyhow::ensure!(
        !config.sections.is_empty() || SUBSYSTEMS.is_empty(),
        "no subsystem is configured, only the admin endpoint: write the section of one into a file or set one of its keys, or name \
         one with --only, for example --only {}; this build has: {}",
        known.first().unwrap_or(&""),
        known.join(", ")
    );
    config.program.admin.check()?;
    let (admin, mut sections) = (orchestrator_admin::Reload::default(), Vec::new());
    let endpoint =
        orchestrator_admin::child_spec(&endpoint(config), config.admin_binding, program_info(config, &admin));
    let mut root = SupervisorSpec::new(Strategy::OneForOne)
        .limits(Limits::ROOT)
        .independent_branches()
        .link_retry_max(Duration::from_millis(config.program.links.retry_max_ms))
        .allow_chaos(config.program.admin.chaos)
        .give_up_alone(RETRY)
        .child(endpoint.insignificant());
    let mut exchange = subsystems::exchange(&config.sections);
    #[cfg(feature = "hooks")]
    if !config.program.hook.is_empty() {
        let hooks = orchestrator_hooks::child_spec(&config.program.hook, &outbox(config), &exchange);
        root = root.child(hooks.map_err(anyhow::Error::msg)?.insignificant());
    }
    for section in &config.sections {
        let (spec, reload) = section.branch(&mut exchange).map_err(anyhow::Error::from_boxed)?;
        root = root.child(spec);
        sections.push((section.name(), reload));
    }
    root.validate(ROOT)?;
    Ok(Topology { root, admin, sections })
}

/// Directory of the first subsystem with files of its own, else `var`.
fn state_dir(config: &Config) -> PathBuf {
    config.sections.iter().find_map(|section| section.state_dir()).unwrap_or_else(|| "var".into())
}

/// Adds the directory of the history.
fn endpoint(config: &Config) -> AdminConfig {
    let mut endpoint = config.program.admin.clone();
    endpoint.history_dir.get_or_insert_with(|| state_dir(config));
    endpoint
}

/// All that must survive a restart, for backups.
pub(crate) fn files_to_back_up(config: &Config) -> BackupSet {
    let mut set = BackupSet::default();
    // Before the queue, whose failed jobs it numbers: an occurrence may come twice after a restore, and none
    // is left out.
    #[cfg(feature = "hooks")]
    if !config.program.hook.is_empty() {
        use orchestrator_edge::sqlite::{check, copy};
        set = set.database("hooks/outbox", &outbox(config), copy, check);
    }
    for section in &config.sections {
        set = set.and(section.name(), section.files_to_back_up());
    }
    set.and("admin", endpoint(config).files_to_back_up(&subsystem_names(config)))
}

/// Database of the occurrences that wait for hooks.
#[cfg(feature = "hooks")]
fn outbox(config: &Config) -> PathBuf {
    state_dir(config).join("hooks.db")
}

/// Source of the progress line, if a subsystem has finite work.
pub(crate) fn progress(config: &Config) -> Option<ProgressSource> {
    let source = config.sections.iter().find_map(|section| section.progress())?;
    // The end of finite work must not stop another subsystem.
    Some(ProgressSource { ends: source.ends && config.sections.len() == 1, ..source })
}

fn subsystem_names(config: &Config) -> Vec<String> {
    config.sections.iter().map(|section| section.name().to_owned()).collect()
}

fn program_info(config: &Config, reload: &orchestrator_admin::Reload) -> ProgramInfo {
    ProgramInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        features: subsystems::names().into_iter().map(str::to_owned).collect(),
        subsystems: subsystem_names(config),
        config: config.redacted(),
        reload: reload.clone(),
    }
}

/// Checks for faults that a restart cannot repair: a database that another instance has locked, or that a
/// newer version wrote.
///
/// # Errors
/// Such a fault exists. The text says what the operator has to change.
pub(crate) fn preflight(config: &Config) -> anyhow::Result<()> {
    #[cfg(feature = "hooks")]
    if !config.program.hook.is_empty() {
        orchestrator_hooks::preflight(&outbox(config))?;
    }
    config.sections.iter().try_for_each(|section| section.preflight().map_err(anyhow::Error::from_boxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_at_most_ten_minutes_apart() {
        let delays: Vec<_> = (0..8).map(|attempt| RETRY.delay(attempt, 0.5).as_secs()).collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 320, 600, 600]);
    }
}
