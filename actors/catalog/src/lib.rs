//! The catalog subsystem: condition-action agents on an ERMrest catalog.
//!
//! It replaces agents that use `PollingErmrestCatalog` of the Python library deriva, with the same
//! requests, claims and change notices. [`child_spec`] builds its supervision tree. `CONTRACT.md`
//! beside this crate lists its rules by number.
//!
//! Pure logic: the crate `orchestrator-catalog-rules` compiles a rule to its requests and values;
//! `state_change` reads, plans and writes conditionally, `polling` decides when to poll,
//! `claimed_rows` and `deferred_rows` keep track of rows. `agent` runs one rule over a `service` in a
//! child of its own, limited by a `priority_semaphore`; `notify_agent` runs a rule that only starts a
//! program. `poller` is the actor CatalogPoller: it adds and removes the rules' children and answers
//! operators. The rules take notices from `edge::notices` and decide themselves when they poll. Everything
//! that talks to other processes is under `edge`.

mod agent;
mod assignment;
mod check;
mod claimed_rows;
mod command;
mod config;
mod deferred_rows;
mod deriva_config;
mod edge;
mod error;
mod handler;
mod handler_config;
mod imaging_config;
mod messages;
mod notify_agent;
mod plan_config;
mod poller;
mod polling;
mod preview;
mod priority_semaphore;
mod queue_handler;
mod request_retries;
mod row_question;
mod rule_child;
mod rule_reloader;
mod rules;
mod service;
mod state_change;
mod status;
mod subsystem;
#[cfg(test)]
mod tests;
mod verbs;
mod wall_clock;

use std::time::Duration;

use orchestrator_edge::{amqp::Broker, read_secret};
use orchestrator_exchange::Exchange;
use orchestrator_supervise::{
    ChildRef, ChildSpec, Limits, Placement, Strategy, SupervisorSpec, children, mailbox,
};

pub use check::check;
pub use config::{BackoffConfig, CatalogConfig, RuleConfig};
pub use error::CatalogError;
pub use handler::{Failure, Outcome, Task};
pub use handler_config::{HandlerConfig, HandlerKind};
pub use plan_config::{PlanConfig, PlanKind};
pub use preview::{RulePreview, preview_rules};
pub use rule_reloader::RuleReloader;
pub use subsystem::Catalogs;

use crate::{
    agent::AgentContext,
    edge::{
        credentials::Source,
        http::{self, CatalogEndpoint, HttpCatalog, Timeouts},
        notices::{self, Notices},
        session::Session,
    },
    poller::CatalogPoller,
    request_retries::Retries,
    rule_child::RuleChildFactory,
    rules::Rules,
    wall_clock::WallClock,
};

/// Capacity of a poller's mailbox: operators' requests.
const MAILBOX_CAPACITY: usize = 64;
/// Longest grace period. The process has a deadline for its stop, and rows are released after the grace
/// period.
const GRACE_MAX: Duration = Duration::from_secs(20);
/// Maximum number of rules of a catalog.
pub(crate) const MAX_RULES: usize = 1_024;
/// Restart limits of the rules' supervisor. One rule that always fails backs off up to 30 s and
/// never exceeds them; about eight do.
const RULE_LIMITS: Limits = Limits { intensity: 64, ..Limits::LEAF };
/// Connection name shown by the broker.
const CONNECTION_NAME: &str = "orchestrator catalog";

/// Specification of the supervision tree of all catalogs. The queue of `exchange` takes the jobs of handlers
/// of kind `queue`. Each catalog's poller is registered with `reloader`.
///
/// # Errors
/// An address or a file cannot be used; the text begins with the key.
pub fn child_spec(
    catalogs: &[CatalogConfig],
    exchange: &Exchange,
    rule_reloader: &mut RuleReloader,
) -> Result<ChildSpec, CatalogError> {
    let mut tree = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::LEAF).independent_branches();
    for config in catalogs {
        tree = tree.child(catalog(config, exchange, rule_reloader).map_err(CatalogError::Config)?);
    }
    Ok(ChildSpec::supervisor("catalog", tree).placement(Placement::Dedicated))
}

/// Specification of one catalog: connection, notices, rules and poller. Each child restarts alone.
fn catalog(
    config: &CatalogConfig,
    exchange: &Exchange,
    rule_reloader: &mut RuleReloader,
) -> Result<ChildSpec, String> {
    let (service, http, retries) = connection(config)?;
    let (notices, listening) = match broker(config)? {
        Some(broker) => {
            let (notices, listening) = notices::child_spec(broker);
            (notices, Some(listening))
        }
        None => (Notices::none(), None),
    };
    let (mailbox, slot) = mailbox::<CatalogPoller<HttpCatalog>>(MAILBOX_CAPACITY);
    rule_reloader.register(&config.name, mailbox.clone());
    let context = AgentContext {
        service,
        clock: WallClock::System,
        agent: config.agent().into(),
        max_batch: config.max_batch as usize,
        cache: config.cache,
        intervals: config.poll_intervals(),
        backoff_factor: retries.agent_factor(),
        grace: Duration::from_millis(config.grace_ms.into()).min(GRACE_MAX),
    };
    let (children, vacancies) = children(MAX_RULES);
    let factory = RuleChildFactory {
        context,
        catalog: config.name.clone(),
        server: endpoint(config, &config.unverified_hosts)?.url().into(),
        exchange: exchange.clone(),
        notices: notices.clone(),
    };
    let (rules, first) = Rules::new(&config.rule, children, factory);
    let active = SupervisorSpec::new(Strategy::OneForOne).limits(RULE_LIMITS);
    let active = first.into_iter().fold(active, SupervisorSpec::child);
    let rules_child = ChildRef::default();
    let poller = poller::factory(config, slot, notices, rules, rules_child.clone());
    let poller = ChildSpec::worker("catalog_poller", poller).attach(CatalogPoller::verbs().console(&mailbox));
    let tree = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::LEAF).child(http);
    let tree = listening.into_iter().fold(tree, SupervisorSpec::child);
    let tree =
        tree.child(ChildSpec::dynamic("rules", active, vacancies).reference(&rules_child)).child(poller);
    Ok(ChildSpec::supervisor(ChildSpec::id_of(&config.name), tree).label(config.name.clone()))
}

/// Handle and specification of the connections to the server, and their retries (CONTRACT CF15).
fn connection(config: &CatalogConfig) -> Result<(HttpCatalog, ChildSpec, Retries), String> {
    let (source, usual) = (credentials(config), CatalogConfig::default());
    let Some(session) = source.config_file().and_then(|file| Session::of_file(&file)) else {
        let (service, child) = http::child_spec(endpoint(config, &config.unverified_hosts)?, source);
        return Ok((service, child, Retries::default()));
    };
    let mut timeouts = timeouts(config);
    if config.connect_timeout_ms == usual.connect_timeout_ms {
        timeouts.connect = session.connect;
    }
    if config.read_timeout_ms == usual.read_timeout_ms {
        timeouts.read = session.read;
    }
    let unverified = if config.unverified_hosts == usual.unverified_hosts {
        &session.unverified_hosts
    } else {
        &config.unverified_hosts
    };
    let endpoint = endpoint(config, unverified)?.timeouts(timeouts).retries(session.retries.clone());
    let (service, child) = http::child_spec(endpoint, source);
    Ok((service, child, session.retries))
}

/// Endpoint and time-outs of the catalog.
fn endpoint(config: &CatalogConfig, unverified_hosts: &[String]) -> Result<CatalogEndpoint, String> {
    let endpoint = CatalogEndpoint::new(&config.base, config.ca_file.as_deref(), unverified_hosts);
    // `base` may hold a password, so only the parser's text is shown.
    let section = format!("catalog.{}", config.name);
    let endpoint = endpoint.map_err(|error| error.in_section(&section, "base"))?;
    Ok(endpoint.timeouts(timeouts(config)))
}

fn timeouts(config: &CatalogConfig) -> Timeouts {
    Timeouts {
        connect: Duration::from_millis(config.connect_timeout_ms.into()),
        read: Duration::from_millis(config.read_timeout_ms.into()),
        ..Timeouts::default()
    }
}

/// Source of the credentials (CONTRACT CF08).
fn credentials(config: &CatalogConfig) -> Source {
    match (&config.token_file, &config.token, &config.credential_file) {
        (Some(file), ..) => Source::TokenFile(file.clone()),
        (None, Some(token), _) => Source::Token(token.clone()),
        (None, None, Some(file)) => Source::file(file),
        (None, None, None) => Source::home(),
    }
}

/// Broker of change notices (CONTRACT CP14); None: no notices are consumed.
fn broker(config: &CatalogConfig) -> Result<Option<Broker>, String> {
    let key = format!("catalog.{}.amqp_file", config.name);
    let url = match (&config.amqp_file, &config.amqp) {
        (Some(file), _) => read_secret(Some(file), "", &key)?,
        (None, Some(url)) => url.expose().to_owned(),
        (None, None) => {
            let host = endpoint(config, &[])?.host().to_owned();
            let host = if host.contains(':') { format!("[{host}]") } else { host };
            format!("amqp://guest:guest@{host}:5672/%2f")
        }
    };
    if url.is_empty() {
        return Ok(None);
    }
    let broker = Broker::with_authorities(&url, CONNECTION_NAME, config.ca_file.as_deref());
    broker.map(Some).map_err(|error| format!("catalog.{}.amqp: {error}", config.name))
}
