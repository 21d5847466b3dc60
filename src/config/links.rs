//! Section `[links]`: reconnection to peers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[links]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LinksConfig {
    /// Maximum delay between two connection attempts, in milliseconds, before a jitter of 20 %. Links with a
    /// shorter maximum of their own keep it.
    #[schemars(range(min = 50, max = 600_000))]
    pub(crate) retry_max_ms: u64,
}

impl Default for LinksConfig {
    fn default() -> Self {
        Self { retry_max_ms: 60_000 }
    }
}
