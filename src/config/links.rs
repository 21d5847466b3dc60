//! Section `[links]`: how peers that are away are tried again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `[links]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LinksConfig {
    /// Longest delay between two tries to reach a peer, milliseconds, before jitter of a fifth. Links whose own longest delay is
    /// shorter keep it.
    #[schemars(range(min = 50, max = 600_000))]
    pub(crate) retry_max_ms: u64,
}

impl Default for LinksConfig {
    fn default() -> Self {
        Self { retry_max_ms: 60_000 }
    }
}
