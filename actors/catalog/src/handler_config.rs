//! `handler` of a rule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who works on rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "snake_case")]
pub enum HandlerConfig {
    /// Nobody.
    #[default]
    None,
}

impl HandlerConfig {
    /// What a schema cannot say.
    pub fn check(&self) -> Vec<String> {
        Vec::new()
    }
}
