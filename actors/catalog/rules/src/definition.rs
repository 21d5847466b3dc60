//! Configured part of a rule that its requests follow from.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Columns and their configured values.
pub type Values = BTreeMap<String, Value>;

/// Configured part of a rule that its requests follow from. The keys of `[[catalog.rule]]` have the same
/// names; [`Rule::new`](crate::rule::Rule::new) checks them.
#[derive(Debug, Clone, Default)]
#[cfg_attr(test, derive(Deserialize), serde(default))]
pub struct Definition {
    /// Name of the rule.
    pub name: String,
    /// Table of the rows; `query` and `update` replace it.
    pub table: Option<String>,
    /// Filter of the candidates.
    pub filter: Option<String>,
    /// Path of the query, sent as written.
    pub query: Option<String>,
    /// Path of the claim, sent as written.
    pub update: Option<String>,
    /// Column that identifies a row.
    pub key: String,
    /// Sort order of the candidates.
    pub sort: String,
    /// Maximum number of rows in one claim.
    pub limit: u32,
    /// Duration of a lease, in seconds, if the configuration says one.
    pub lease_secs: Option<u32>,
    /// Column that counts attempts.
    pub attempts_column: Option<String>,
    /// Number of attempts after which a row is dead.
    pub max_attempts: Option<u32>,
    /// Claim of a row.
    pub claim: ClaimConfig,
    /// Columns that a program writes with the claim; an empty list: those of `update` that `claim.set`
    /// does not write. None: no program does.
    pub planned: Option<Vec<String>>,
    /// Columns written when a row is done.
    pub done: Values,
    /// Columns written after a failed attempt.
    pub fail: Values,
    /// Columns written after the last attempt or a permanent failure.
    pub dead: Values,
    /// A handler processes the rows, and may change them.
    pub is_handled: bool,
    /// The handler has a result when it fails, too.
    pub fails_with_result: bool,
}

/// `claim` of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimConfig {
    /// Protection against two agents claiming the same row.
    pub guard: Guard,
    /// Columns that a claim writes: `state = "claimed"`, `claimed_by = "$token"`, `lease_until =
    /// "$now+15m"`.
    pub set: Values,
}

/// Protection against two agents claiming the same row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// Each row is written only if it is unchanged since it was read (CONTRACT CP08). Competing
    /// agents share the rows.
    #[default]
    RowCas,
    /// Nothing is written if anything in the catalog has changed, as with the original
    /// (CONTRACT CP09).
    IfMatch,
}
