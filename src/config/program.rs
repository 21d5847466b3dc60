//! Sections of the configuration that belong to no subsystem.

use orchestrator_admin::AdminConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{links::LinksConfig, telemetry::TelemetryConfig};

/// Sections that belong to no subsystem.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "orchestrator", description = "The whole configuration of orchestrator.")]
pub(crate) struct ProgramConfig {
    /// Logs.
    pub(crate) telemetry: TelemetryConfig,
    /// Connections to brokers, databases and servers.
    pub(crate) links: LinksConfig,
    /// The admin endpoint.
    pub(crate) admin: AdminConfig,
    /// Programs and webhooks that are told what went wrong.
    #[cfg(feature = "hooks")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hook: Vec<orchestrator_hooks::HookConfig>,
}
