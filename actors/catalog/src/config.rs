//! Sections `[[catalog]]` and `[[catalog.rule]]` of the configuration.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{handler_config::HandlerConfig, polling::Patience};

/// A catalog on an ERMrest server, and what is done with its rows. There may be several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "base"]))]
pub struct CatalogConfig {
    /// Its name in the tree.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The catalog, `https://HOST/ermrest/catalog/ID`.
    #[schemars(length(min = 1), extend("format" = "address"))]
    pub base: String,
    /// A JSON file of credentials by host; without it, and without a token, `~/.deriva/credential.json` if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_file: Option<PathBuf>,
    /// A file with a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A bearer token, for trying out: whoever may read this file may use it. It is not printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "secret"))]
    pub token: Option<PlainToken>,
    /// A file of authorities (PEM) that are trusted in place of the public ones, for the catalog and its broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Hosts whose certificate is not looked at, as with the original.
    #[schemars(extend("format" = "address"))]
    pub unverified_hosts: Vec<String>,
    /// The broker of change notices, `amqp://..` or `amqps://..`; without it guest on the catalog's host, port 5672; empty: none.
    /// A url with a password belongs into `amqp_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "address"))]
    pub amqp: Option<String>,
    /// A file with that url instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amqp_file: Option<PathBuf>,
    /// Time between two looks while notices arrive, seconds.
    #[schemars(range(min = 0.01, max = 86_400.0))]
    pub poll_secs: f64,
    /// Time between two looks while they do not, seconds.
    #[schemars(range(min = 0.01, max = 86_400.0))]
    pub poll_without_notices_secs: f64,
    /// How long a notice is waited for after another one, to look once for both, milliseconds.
    #[schemars(range(max = 60_000))]
    pub coalesce_ms: u32,
    /// How long notices may put off a look, milliseconds.
    #[schemars(range(max = 600_000))]
    pub coalesce_max_ms: u32,
    /// Rows that are written at once.
    #[schemars(range(min = 1, max = 5_000))]
    pub max_batch: u32,
    /// Ask whether anything has changed, instead of for all rows again.
    pub cache: bool,
    /// How long a connection may take, milliseconds.
    #[schemars(range(min = 10, max = 600_000))]
    pub connect_timeout_ms: u32,
    /// How long an answer may take, milliseconds.
    #[schemars(range(min = 10, max = 3_600_000))]
    pub read_timeout_ms: u32,
    /// What tokens of claims begin with; empty: host and process.
    pub agent: String,
    /// How long handlers may go on after the stop, before their rows are released, milliseconds.
    #[schemars(range(max = 3_600_000))]
    pub grace_ms: u32,
    /// What is done with which rows.
    pub rule: Vec<RuleConfig>,
}

/// A token that stands in the configuration itself. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PlainToken(String);

impl PlainToken {
    /// The token.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PlainToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A rule `[[catalog.rule]]`: rows that are to be claimed, worked on, and completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name"]))]
pub struct RuleConfig {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The table, `TABLE` or `SCHEMA:TABLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Which rows, in the server's syntax: `state=actionable`, `state=a;state=b`; `$now` is the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The path of the query instead of table and filter, sent as it stands: `/entity/Foo/state=actionable?limit=5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The path of the claim, with `query`: `/attributegroup/Foo/id;state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
    /// The column that tells rows apart.
    #[schemars(length(min = 1))]
    pub key: String,
    /// The order, in the server's syntax: `RCT,RID` or `priority::desc::,RCT`.
    pub sort: String,
    /// Rows that are claimed at once, and that it has claimed at any time, at the most: no more than are begun within a second.
    #[schemars(range(min = 1, max = 5_000))]
    pub limit: u32,
    /// Rows that are worked on at the same time.
    #[schemars(range(min = 1, max = 1_000))]
    pub concurrency: u32,
    /// Of rules that have something to write, those with the greatest go first.
    pub priority: i32,
    /// How long a claim holds without being renewed, seconds: what `$now+..` in the claim says, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub lease_secs: Option<u32>,
    /// The column that counts attempts; the claim writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts_column: Option<String>,
    /// Attempts before `dead` is written instead of `fail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_attempts: Option<u32>,
    /// How long this process leaves a row alone that failed.
    pub backoff: BackoffConfig,
    /// Who works on rows.
    pub handler: HandlerConfig,
    /// How rows are claimed.
    pub claim: ClaimConfig,
    /// What is written once a row is done.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub done: BTreeMap<String, Value>,
    /// What is written when it failed and is to be tried again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fail: BTreeMap<String, Value>,
    /// What is written when it is not to be tried again; without it, `fail`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dead: BTreeMap<String, Value>,
    /// Show what would be claimed, and claim nothing.
    pub dry_run: bool,
}

/// `claim` of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimConfig {
    /// What keeps two agents from claiming one row.
    pub guard: Guard,
    /// The columns that are written: `state = "claimed"`, `claimed_by = "$token"`, `lease_until = "$now+15m"`.
    pub set: BTreeMap<String, Value>,
}

/// What keeps two agents from claiming one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// Each row is written only if it is as it was read (CONTRACT CP08): of many agents each gets some.
    #[default]
    RowCas,
    /// Nothing is written if anything in the catalog has changed, as with the original (CONTRACT CP09).
    IfMatch,
}

/// `backoff` of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackoffConfig {
    /// After the first failure, milliseconds.
    #[schemars(range(max = 604_800_000))]
    pub first_ms: u32,
    /// At the most, milliseconds.
    #[schemars(range(max = 604_800_000))]
    pub max_ms: u32,
}

impl Default for CatalogConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            base: String::new(),
            credential_file: None,
            token_file: None,
            token: None,
            ca_file: None,
            unverified_hosts: vec!["localhost".to_owned()],
            amqp: None,
            amqp_file: None,
            poll_secs: 600.0,
            poll_without_notices_secs: 15.0,
            coalesce_ms: 100,
            coalesce_max_ms: 1_000,
            max_batch: 1_000,
            cache: true,
            connect_timeout_ms: 6_000,
            read_timeout_ms: 63_000,
            agent: String::new(),
            grace_ms: 20_000,
            rule: Vec::new(),
        }
    }
}

impl Default for RuleConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            table: None,
            filter: None,
            query: None,
            update: None,
            key: "RID".to_owned(),
            sort: "RCT,RID".to_owned(),
            limit: 100,
            concurrency: 4,
            priority: 0,
            lease_secs: None,
            attempts_column: None,
            max_attempts: None,
            backoff: BackoffConfig::default(),
            handler: HandlerConfig::default(),
            claim: ClaimConfig::default(),
            done: BTreeMap::new(),
            fail: BTreeMap::new(),
            dead: BTreeMap::new(),
            dry_run: false,
        }
    }
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self { first_ms: 1_000, max_ms: 300_000 }
    }
}

impl CatalogConfig {
    /// How patient it is.
    pub fn patience(&self) -> Patience {
        Patience {
            poll: Duration::from_secs_f64(self.poll_secs),
            poll_without_notices: Duration::from_secs_f64(self.poll_without_notices_secs),
            coalesce: Duration::from_millis(self.coalesce_ms.into()),
            coalesce_max: Duration::from_millis(self.coalesce_max_ms.max(self.coalesce_ms).into()),
        }
    }

    /// Who it is in tokens of claims.
    pub fn agent(&self) -> String {
        if !self.agent.is_empty() {
            return self.agent.clone();
        }
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{}:{}", machine.trim(), std::process::id())
    }

    /// For a person at a terminal: what it works on, and how to look at it.
    pub fn greeting(&self) -> String {
        let rules: Vec<_> = self.rule.iter().map(|rule| rule.name.as_str()).collect();
        let rules = rules.join(", ");
        format!(
            "  catalog     {} at {}: {rules}\n          how far:      orchestrator catalog status\n",
            self.name, self.base
        )
    }
}
