//! Section `[telemetry]`: what is logged, and how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[telemetry]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TelemetryConfig {
    /// How log lines look.
    pub(crate) format: LogFormat,
    /// What is logged, in `tracing-subscriber`'s filter language, e.g. `info,orchestrator_queue=debug`.
    pub(crate) filter: String,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
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
