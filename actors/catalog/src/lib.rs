//! The catalog subsystem: condition-action agents on an ERMrest catalog.
//!
//! It takes the place of agents that are built on the Python library deriva: the same requests, the same claims, the same
//! notices. [`child_spec`] gives its tree; `CONTRACT.md` beside this crate has its rules by number.
//!
//! Pure rules: [`path`] and [`template`] (what is asked and written), [`rule`] (a rule, read once), [`state_change`] (look, plan,
//! write unless somebody was faster), [`polling`] (when to look), [`hand`] (what is claimed and not settled), [`left_alone`] (what is not claimed for a while), [`answer`] and
//! [`verdict_kind`] (what handlers say). [`agent`] has one rule at work over a [`service`], taking turns in the [`lane`], in a child
//! of its own; [`poller`] is the actor that tells them when to look. Everything that talks to the outside is under [`edge`].

pub mod agent;
pub mod answer;
mod assignment;
mod check;
mod command;
mod config;
pub mod edge;
mod error;
pub mod hand;
mod handler_config;
pub mod handling;
pub mod lane;
pub mod left_alone;
pub mod messages;
pub mod path;
pub mod poller;
pub mod polling;
pub mod rule;
mod rule_child;
mod rulebook;
mod rules;
pub mod service;
pub mod state_change;
pub mod status;
mod subsystem;
pub mod template;
mod trial;
pub mod verdict_kind;
pub mod wall;

use std::time::Duration;

use orchestrator_edge::{amqp::Broker, read_secret};
use orchestrator_supervise::{ChildSpec, Limits, Placement, Strategy, SupervisorSpec, children, mailbox};

pub use check::check;
pub use config::{BackoffConfig, CatalogConfig, ClaimConfig, Guard, PlainToken, RuleConfig};
pub use error::CatalogError;
pub use handler_config::{Actors, HandlerConfig, HandlerKind};
pub use rulebook::Rulebook;
pub use subsystem::Catalogs;
pub use trial::{Trial, try_out};

use crate::{
    agent::AgentContext,
    edge::{
        credentials::{Secret, Source},
        http::{self, HttpCatalog, Patience, Place},
        notices::{self, Notices},
    },
    poller::CatalogPoller,
    rule_child::RuleMaker,
    rules::Rules,
    wall::Wall,
};

/// Messages that may wait for a poller: questions of operators.
const QUESTIONS: usize = 64;
/// Most rules of a catalog.
pub(crate) const MAX_RULES: usize = 1_024;
/// A rule that fails alone backs off up to 30 s and never takes others along; some eight that fail without end do.
const RULE_LIMITS: Limits = Limits { intensity: 64, ..Limits::LEAF };
/// Who we are at the broker.
const CONNECTION_NAME: &str = "orchestrator catalog";

/// The tree of all catalogs: for each its connection, its notices, its rules, and its poller. `actors` are those that rows can be handed
/// to; `rulebook` learns where to hand other rules.
///
/// # Errors
/// An address or a file cannot be used; the text begins with the key.
pub fn child_spec(
    catalogs: &[CatalogConfig],
    actors: &Actors,
    rulebook: &mut Rulebook,
) -> Result<ChildSpec, CatalogError> {
    let mut tree = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::LEAF);
    for config in catalogs {
        tree = tree.child(catalog(config, actors, rulebook).map_err(CatalogError::Config)?);
    }
    Ok(ChildSpec::supervisor("catalog", tree).placement(Placement::Dedicated))
}

/// The tree of one catalog. Its children do not depend on each other: the poller goes on while the others come back.
fn catalog(config: &CatalogConfig, actors: &Actors, rulebook: &mut Rulebook) -> Result<ChildSpec, String> {
    let (service, http) = http::child_spec(place(config)?, credentials(config));
    let (heard, listening) = match broker(config)? {
        Some(broker) => {
            let (heard, listening) = notices::child_spec(broker, notices::RETRY);
            (heard, Some(listening))
        }
        None => (Notices::none(), None),
    };
    let (mailbox, slot) = mailbox::<CatalogPoller<HttpCatalog>>(QUESTIONS);
    rulebook.learn(&config.name, mailbox.clone());
    let context = AgentContext {
        service,
        wall: Wall::System,
        agent: config.agent().into(),
        max_batch: config.max_batch as usize,
        cache: config.cache,
        grace: Duration::from_millis(config.grace_ms.into()),
    };
    let (children, vacancies) = children(MAX_RULES);
    let maker = RuleMaker { context, actors: actors.clone() };
    let (rules, first) = Rules::new(&config.rule, children, maker);
    let at_work = SupervisorSpec::new(Strategy::OneForOne).limits(RULE_LIMITS);
    let at_work = first.into_iter().fold(at_work, SupervisorSpec::child);
    let poller = poller::factory(config, slot, heard, rules);
    let poller = ChildSpec::worker("catalog_poller", poller).console(mailbox.recipient());
    let tree = SupervisorSpec::new(Strategy::OneForOne).limits(Limits::LEAF).child(http);
    let tree = listening.into_iter().fold(tree, SupervisorSpec::child);
    let tree = tree.child(ChildSpec::dynamic("rules", at_work, vacancies)).child(poller);
    Ok(ChildSpec::supervisor(ChildSpec::id_of(&config.name), tree).label(config.name.clone()))
}

/// Where the catalog is.
fn place(config: &CatalogConfig) -> Result<Place, String> {
    let place = Place::new(&config.base, config.ca_file.as_deref(), &config.unverified_hosts);
    // What stands in the base may be a password: the text says what of it can be shown.
    let place = place.map_err(|error| match error.strip_prefix("ca_file") {
        Some(rest) => format!("catalog.{}.ca_file{rest}", config.name),
        None => format!("catalog.{}.base = ..: {error}", config.name),
    })?;
    let patience = Patience {
        connect: Duration::from_millis(config.connect_timeout_ms.into()),
        read: Duration::from_millis(config.read_timeout_ms.into()),
        ..Patience::default()
    };
    Ok(place.patience(patience))
}

/// Who we are there.
fn credentials(config: &CatalogConfig) -> Source {
    match (&config.token_file, &config.token, &config.credential_file) {
        (Some(file), ..) => Source::TokenFile(file.clone()),
        (None, Some(token), _) => Source::Token(Secret::new(token.reveal().to_owned())),
        (None, None, Some(file)) => Source::file(file),
        (None, None, None) => Source::home(),
    }
}

/// The broker of notices; None: there is none.
fn broker(config: &CatalogConfig) -> Result<Option<Broker>, String> {
    let key = format!("catalog.{}.amqp_file", config.name);
    let url = match (&config.amqp_file, &config.amqp) {
        (Some(file), _) => read_secret(Some(file), "", &key)?,
        (None, Some(url)) => url.clone(),
        (None, None) => {
            let host = place(config)?.host().to_owned();
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

#[cfg(test)]
mod tests {
    use orchestrator_supervise::RestartWindow;

    use super::*;

    /// Tells whether `rules` rules that panic at every start restart the others within an hour.
    fn escalates(rules: u32) -> bool {
        let mut window = RestartWindow::new(RULE_LIMITS);
        let (mut now, mut attempt) = (Duration::ZERO, 0);
        while now < Duration::from_secs(3_600) {
            if (0..rules).any(|_| window.record(now)) {
                return true;
            }
            now += RULE_LIMITS.backoff.delay(attempt, 0.0);
            attempt += 1;
        }
        false
    }

    #[test]
    fn a_rule_that_always_fails_takes_no_other_along_but_many_do() {
        assert!(!escalates(1) && !escalates(6));
        assert!(escalates(9));
    }
}
