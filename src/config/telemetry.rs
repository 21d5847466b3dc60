//! Section `[telemetry]`: format and filter of the logs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::telemetry::LogFormat;

/// Section `[telemetry]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TelemetryConfig {
    /// Format of log lines.
    pub(crate) format: LogFormat,
    /// Log levels as directives of `tracing-subscriber`, e.g. `info,orchestrator_queue=debug`.
    pub(crate) filter: String,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned() }
    }
}
