//! Configuration in, root supervisor out.

use orchestrator_admin::{About, Binding};
use orchestrator_subsystem::{Work, section::AnyReload};
use orchestrator_supervise::{Limits, Strategy, SupervisorSpec};

use crate::{
    config::Config,
    subsystems::{self, SUBSYSTEMS},
};

/// Name of the root, the first segment of every path.
pub(crate) const ROOT: &str = "orchestrator";

/// The tree that a configuration describes, and the ways to change it while it runs.
pub(crate) struct Topology {
    pub(crate) root: SupervisorSpec,
    /// Makes the admin endpoint read its files again.
    pub(crate) admin: orchestrator_admin::Reload,
    /// Take over what can change in a section, by the subsystem's name.
    pub(crate) sections: Vec<(&'static str, AnyReload)>,
}

/// Returns the tree that `config` describes. The admin endpoint comes first: it is there before the first subsystem starts and
/// until the last one has stopped.
///
/// # Errors
/// What the operator has to change.
pub(crate) fn of(config: &Config, binding: Binding) -> anyhow::Result<Topology> {
    let mut root = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::ROOT);
    let (admin, mut sections) = (orchestrator_admin::Reload::default(), Vec::new());
    if let Some(endpoint) = &config.program.admin {
        root = root.child(orchestrator_admin::child_spec(endpoint, binding, about(config, &admin)));
    }
    for section in &config.sections {
        let (spec, reload) = section.branch().map_err(anyhow::Error::from_boxed)?;
        root = root.child(spec);
        sections.push((section.name(), reload));
    }
    Ok(Topology { root, admin, sections })
}

/// Returns the work whose progress is shown.
pub(crate) fn work(config: &Config) -> Option<Work> {
    let work = config.sections.iter().find_map(|section| section.work())?;
    // Beside the admin endpoint nothing else may run: it would be cut short.
    Some(Work { ends: work.ends && config.sections.len() == 1, ..work })
}

/// Returns what the admin endpoint tells of this program.
fn about(config: &Config, reload: &orchestrator_admin::Reload) -> About {
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        features: subsystems::names().into_iter().map(str::to_owned).collect(),
        subsystems: config.sections.iter().map(|section| section.name().to_owned()).collect(),
        config: config.redacted(),
        reload: reload.clone(),
    }
}

/// Checks the configuration as far as that goes without touching anything.
///
/// # Errors
/// What the operator has to change.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    let known = subsystems::names();
    anyhow::ensure!(
        !config.sections.is_empty() || SUBSYSTEMS.is_empty(),
        "no subsystem is configured, only the admin endpoint: write the section of one into a file or set one of its keys, or name \
         one with --only, for example --only {}; this build has: {}",
        known.first().unwrap_or(&""),
        known.join(", ")
    );
    if let Some(admin) = &config.program.admin {
        admin.check()?;
    }
    of(config, Binding::Required)?.root.validate(ROOT)?;
    Ok(())
}

/// Checks what no restart would heal: a database that another instance has, or that a newer program wrote.
///
/// # Errors
/// What the operator has to change.
pub(crate) fn preflight(config: &Config) -> anyhow::Result<()> {
    check(config)?;
    config.sections.iter().try_for_each(|section| section.preflight().map_err(anyhow::Error::from_boxed))
}
