//! The single place that knows all subsystems: configuration in, root supervisor out.

use orchestrator_admin::{About, Binding};
use orchestrator_supervise::{Limits, Strategy, SupervisorSpec};

use crate::{
    config::{Config, SUBSYSTEMS},
    reload::Live,
};

/// Name of the root, the first segment of every path.
pub(crate) const ROOT: &str = "orchestrator";

/// The tree that `config` describes. The admin endpoint comes first: it is there before the first subsystem starts and
/// until the last one has stopped.
/// `live` is where those are told who take changes while they run.
///
/// # Errors
/// What the operator has to change.
pub(crate) fn root(config: &Config, binding: Binding, live: &Live) -> anyhow::Result<SupervisorSpec> {
    let mut root = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::ROOT);
    if let Some(admin) = &config.admin {
        root = root.child(orchestrator_admin::child_spec(admin, binding, about(config, live)));
    }
    #[cfg(feature = "queue")]
    if let Some(queue) = &config.queue {
        root = root.child(orchestrator_queue::child_spec(queue));
    }
    #[cfg(feature = "provenance")]
    if let Some(provenance) = &config.provenance {
        root = root.child(orchestrator_provenance::child_spec(provenance).map_err(anyhow::Error::msg)?);
    }
    #[cfg(feature = "ingester")]
    if !config.ingester.is_empty() {
        root = root.child(orchestrator_ingester::child_spec(&config.ingester).map_err(anyhow::Error::msg)?);
    }
    #[cfg(feature = "producer")]
    if let Some(producer) = &config.producer {
        root = root.child(orchestrator_producer::child_spec(producer).map_err(anyhow::Error::msg)?);
    }
    #[cfg(feature = "catalog")]
    if !config.catalog.is_empty() {
        let names = orchestrator_catalog::Names::default();
        let catalogs = orchestrator_catalog::child_spec(&config.catalog, &names, &live.catalog);
        root = root.child(catalogs.map_err(anyhow::Error::msg)?);
    }
    Ok(root)
}

/// The child whose figures tell how far the work is, if it is one that has an end to come to.
pub(crate) fn measured(config: &Config) -> Option<String> {
    #[cfg(feature = "producer")]
    {
        config.producer.as_ref().map(|_| format!("{ROOT}/{}", orchestrator_producer::ACTOR))
    }
    #[cfg(not(feature = "producer"))]
    {
        let _ = config;
        None
    }
}

/// The child whose good end is that of the run: work that ends, and nothing beside it but the admin endpoint. None: it runs until
/// it is told to stop.
pub(crate) fn finite(config: &Config) -> Option<String> {
    #[cfg(feature = "producer")]
    {
        let mut others = Config { producer: None, ..config.clone() };
        (others.telemetry, others.links, others.admin) = Default::default();
        let ends = config.producer.as_ref().is_some_and(|producer| producer.until_done);
        measured(config).filter(|_| ends && others == Config::default())
    }
    #[cfg(not(feature = "producer"))]
    {
        let _ = config;
        None
    }
}

/// What the admin endpoint tells of this program.
fn about(config: &Config, live: &Live) -> About {
    let shown = config.redacted();
    let runs = |name: &&&str| shown.get(**name).is_some_and(|section| !section.is_null());
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        features: SUBSYSTEMS.iter().map(|name| (*name).to_owned()).collect(),
        subsystems: SUBSYSTEMS.iter().filter(runs).map(|name| (*name).to_owned()).collect(),
        config: shown,
        reload: live.admin.clone(),
    }
}

/// Checks the configuration as far as that goes without touching anything.
///
/// # Errors
/// What the operator has to change.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    anyhow::ensure!(
        config.runs_any() || SUBSYSTEMS.is_empty(),
        "no subsystem is configured, only the admin endpoint: write the section of one into a file or set one of its keys, or name \
         one with --only, for example --only {}; this build has: {}",
        SUBSYSTEMS.first().unwrap_or(&""),
        SUBSYSTEMS.join(", ")
    );
    if let Some(admin) = &config.admin {
        admin.check()?;
    }
    root(config, Binding::Required, &Live::default())?.validate(ROOT)?;
    Ok(())
}

/// Checks what no restart would heal: a database that another instance has, or that a newer program wrote.
///
/// # Errors
/// What the operator has to change.
pub(crate) fn preflight(config: &Config) -> anyhow::Result<()> {
    check(config)?;
    #[cfg(feature = "queue")]
    if let Some(queue) = &config.queue {
        orchestrator_queue::preflight(queue)?;
    }
    #[cfg(feature = "provenance")]
    if let Some(provenance) = &config.provenance {
        orchestrator_provenance::preflight(provenance)?;
    }
    #[cfg(feature = "ingester")]
    orchestrator_ingester::preflight(&config.ingester).map_err(anyhow::Error::msg)?;
    #[cfg(feature = "producer")]
    if let Some(producer) = &config.producer {
        orchestrator_producer::preflight(producer).map_err(anyhow::Error::msg)?;
    }
    Ok(())
}
