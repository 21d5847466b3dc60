//! Messages to a catalog's poller.

use orchestrator_supervise::Message;

use crate::config::RuleConfig;

/// Replaces the rules of a catalog. Unchanged rules continue undisturbed.
#[derive(Debug, Clone)]
pub(crate) struct SetRules {
    pub rules: Vec<RuleConfig>,
}

impl Message for SetRules {
    type Result = ();
}
