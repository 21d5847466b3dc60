//! Rule, configuration, clock and status reporter that the parts of an agent share.

use std::{rc::Rc, sync::Arc, time::Duration};

use orchestrator_catalog_rules::rule::Rule;

use super::poll_request::Target;
use crate::{
    config::RuleConfig,
    status::{RuleCounter, StatusReporter},
    wall_clock::WallClock,
};

/// Context that the parts of an agent share.
pub(super) struct RuleCx {
    pub(super) rule: Rule,
    pub(super) config: RuleConfig,
    pub(super) clock: WallClock,
    /// Prefix of claim tokens.
    pub(super) agent: Arc<str>,
    /// Longest delay between two attempts, as configured for all links.
    pub(super) retry_max: Duration,
    pub(super) reporter: StatusReporter,
}

impl RuleCx {
    pub(super) fn new_token(&self) -> Rc<str> {
        format!("{}/{}", self.agent, uuid::Uuid::new_v4()).into()
    }

    pub(super) fn count_claims(&self, target: Target, rows: usize) {
        self.reporter.count(RuleCounter::Claimed, rows);
        if target == Target::HeldRows {
            self.reporter.count(RuleCounter::TakenOver, rows);
        }
    }
}
