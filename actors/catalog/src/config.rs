//! Sections `[[catalog]]` and `[[catalog.rule]]` of the configuration.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use orchestrator_catalog_rules::definition::{ClaimConfig, Definition};
use orchestrator_subsystem::{Address, Period, Secret};
use orchestrator_supervise::Backoff;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    handler_config::{HandlerConfig, HandlerKind},
    plan_config::{PlanConfig, PlanKind},
    polling::PollIntervals,
};

/// A catalog on an ERMrest server, with the rules for its rows. There may be several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name", "base"]))]
pub struct CatalogConfig {
    /// Name of the catalog in the tree.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Address of the catalog, `https://HOST/ermrest/catalog/ID`.
    #[schemars(length(min = 1), extend("format" = "address"))]
    pub base: String,
    /// JSON file with credentials by host. Default, without a token: `~/.deriva/credential.json` if
    /// it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential_file: Option<PathBuf>,
    /// File with a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Bearer token, for tests: whoever may read this file may use it. It is not printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// File with the certificate authorities (PEM) trusted for the catalog and its broker, in place
    /// of the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Hosts whose certificate is not verified. Default: `bypass_cert_verify_host_list` of the block
    /// `session` in `config.json`, or else localhost (CONTRACT CF15).
    #[schemars(extend("format" = "address"))]
    pub unverified_hosts: Vec<String>,
    /// Broker of change notices, `amqp://..` or `amqps://..`. Default: user guest on the catalog's
    /// host, port 5672. Empty: none. A URL with a password belongs into `amqp_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amqp: Option<Address>,
    /// File with the URL of the broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amqp_file: Option<PathBuf>,
    /// Time between two polls while notices arrive, in seconds.
    #[schemars(range(min = 0.01, max = 86_400.0))]
    pub poll_secs: f64,
    /// Time between two polls while they do not, in seconds, if it is less.
    #[schemars(range(min = 0.01, max = 86_400.0))]
    pub poll_without_notices_secs: f64,
    /// Time that a notice shortly after a poll waits for further ones, to poll once for all, in
    /// milliseconds.
    #[schemars(range(max = 60_000))]
    pub coalesce_ms: u32,
    /// Maximum time that notices postpone a poll, in milliseconds.
    #[schemars(range(max = 600_000))]
    pub coalesce_max_ms: u32,
    /// Maximum number of rows in one write.
    #[schemars(range(min = 1, max = 5_000))]
    pub max_batch: u32,
    /// Send conditional reads (`If-None-Match`), so that an unchanged catalog answers 304 without
    /// rows.
    pub cache: bool,
    /// Maximum time to connect, in milliseconds.
    #[schemars(range(min = 10, max = 600_000))]
    pub connect_timeout_ms: u32,
    /// Maximum time of a request with its answer, in milliseconds.
    #[schemars(range(min = 10, max = 3_600_000))]
    pub read_timeout_ms: u32,
    /// Prefix of claim tokens; empty: host name and process id.
    pub agent: String,
    /// Time that running handlers get at a stop before their rows are released, in milliseconds; more than
    /// 20,000 count as 20,000.
    #[schemars(range(max = 3_600_000))]
    pub grace_ms: u32,
    /// Rules for the rows of this catalog.
    pub rule: Vec<RuleConfig>,
}

/// A rule `[[catalog.rule]]`: the rows that it claims, the handler that processes them, and the
/// columns that it writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["name"]))]
pub struct RuleConfig {
    /// Name of the rule.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Start the handler, a program, at each change of the catalog, without reading or claiming rows
    /// (CONTRACT CO17).
    pub notify_only: bool,
    /// Table, `TABLE` or `SCHEMA:TABLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Filter of the candidates in the server's syntax: `state=actionable`, `state=a;state=b`;
    /// `$now` is the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Path of the query in place of table and filter, sent as written:
    /// `/entity/Foo/state=actionable?limit=5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Path of the claim, together with `query`: `/attributegroup/Foo/id;state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
    /// Column that identifies a row.
    #[schemars(length(min = 1))]
    pub key: String,
    /// Sort order in the server's syntax: `RCT,RID` or `priority::desc::,RCT`.
    pub sort: String,
    /// Maximum number of rows in one claim, and of claimed rows at any time. No more rows are
    /// claimed than handlers start within a second.
    #[schemars(range(min = 1, max = 5_000))]
    pub limit: u32,
    /// Maximum number of handlers that run at once.
    #[schemars(range(min = 1, max = 1_000))]
    pub concurrency: u32,
    /// Priority of the rule's writes; the highest goes first.
    pub priority: i32,
    /// Duration of a lease without renewal, in seconds. Must equal `$now+..` in the claim, which is
    /// the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 604_800))]
    pub lease_secs: Option<u32>,
    /// Column that counts attempts; the claim must write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts_column: Option<String>,
    /// Number of attempts after which `dead` is written in place of `fail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_attempts: Option<u32>,
    /// Time for which this process does not claim a failed row again.
    pub backoff: BackoffConfig,
    /// Handler of claimed rows.
    pub handler: HandlerConfig,
    /// Claim of a row.
    pub claim: ClaimConfig,
    /// Program that decides what a claim writes, in addition to `claim.set`.
    pub plan: PlanConfig,
    /// Columns written when a row is done.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub done: BTreeMap<String, Value>,
    /// Columns written after a failed attempt.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fail: BTreeMap<String, Value>,
    /// Columns written after the last attempt or a permanent failure. Default: `fail`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dead: BTreeMap<String, Value>,
    /// Show in `status` what would be claimed, and claim nothing.
    pub dry_run: bool,
    /// Time without new rows after which the table's input is late: a number and `s`, `m`, `h` or `d`.
    /// Unset: it never is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_every: Option<Period>,
}

/// `backoff` of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackoffConfig {
    /// Delay after the first failure, in milliseconds.
    #[schemars(range(max = 604_800_000))]
    pub first_ms: u32,
    /// Maximum delay, in milliseconds.
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
            poll_without_notices_secs: 600.0,
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
            notify_only: false,
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
            plan: PlanConfig::default(),
            done: BTreeMap::new(),
            fail: BTreeMap::new(),
            dead: BTreeMap::new(),
            dry_run: false,
            expect_every: None,
        }
    }
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self { first_ms: 1_000, max_ms: 300_000 }
    }
}

impl BackoffConfig {
    pub(crate) fn backoff(self) -> Backoff {
        Backoff {
            first: Duration::from_millis(self.first_ms.into()),
            max: Duration::from_millis(self.max_ms.into()),
        }
    }
}

impl RuleConfig {
    /// The part that the rule's requests follow from.
    pub(crate) fn definition(&self) -> Definition {
        Definition {
            name: self.name.clone(),
            table: self.table.clone(),
            filter: self.filter.clone(),
            query: self.query.clone(),
            update: self.update.clone(),
            key: self.key.clone(),
            sort: self.sort.clone(),
            limit: self.limit,
            lease_secs: self.lease_secs,
            attempts_column: self.attempts_column.clone(),
            max_attempts: self.max_attempts,
            claim: self.claim.clone(),
            planned: (self.plan.kind != PlanKind::None).then(|| self.plan.columns.clone()),
            done: self.done.clone(),
            fail: self.fail.clone(),
            dead: self.dead.clone(),
            is_handled: self.handler.kind != HandlerKind::None,
            fails_with_result: self.handler.kind == HandlerKind::Queue,
        }
    }
}

impl CatalogConfig {
    /// Returns the intervals of polling.
    pub fn poll_intervals(&self) -> PollIntervals {
        PollIntervals {
            poll: Duration::from_secs_f64(self.poll_secs),
            poll_without_notices: Duration::from_secs_f64(self.poll_without_notices_secs),
            coalesce: Duration::from_millis(self.coalesce_ms.into()),
            coalesce_max: Duration::from_millis(self.coalesce_max_ms.max(self.coalesce_ms).into()),
        }
    }

    /// Returns the prefix of claim tokens.
    pub fn agent(&self) -> String {
        if !self.agent.is_empty() {
            return self.agent.clone();
        }
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{}:{}", machine.trim(), std::process::id())
    }

    /// Returns a text for a terminal at startup: catalog, rules, and the command that shows their
    /// status.
    pub fn greeting(&self) -> String {
        let rules: Vec<_> = self.rule.iter().map(|rule| rule.name.as_str()).collect();
        let rules = rules.join(", ");
        format!(
            "  catalog     {} at {}: {rules}\n              status:       orchestrator catalog status\n",
            self.name, self.base
        )
    }
}
