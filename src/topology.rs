//! The single place that knows all subsystems: configuration in, root supervisor out.

use orchestrator_admin::Binding;
use orchestrator_supervise::{Limits, Strategy, SupervisorSpec};

use crate::config::Config;

/// Name of the root, the first segment of every path.
pub(crate) const ROOT: &str = "orchestrator";

/// The tree that `config` describes. The admin endpoint comes first: it is there before the first subsystem starts and
/// until the last one has stopped.
pub(crate) fn root(config: &Config, binding: Binding) -> SupervisorSpec {
    let mut root = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::ROOT);
    if let Some(admin) = &config.admin {
        root = root.child(orchestrator_admin::child_spec(admin, binding));
    }
    #[cfg(feature = "queue")]
    if let Some(queue) = &config.queue {
        root = root.child(orchestrator_queue::child_spec(queue));
    }
    root
}

/// Checks the configuration as far as that goes without touching anything.
///
/// # Errors
/// What the operator has to change.
pub(crate) fn check(config: &Config) -> anyhow::Result<()> {
    if let Some(admin) = &config.admin {
        admin.check()?;
    }
    root(config, Binding::Required).validate(ROOT)?;
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
    Ok(())
}
