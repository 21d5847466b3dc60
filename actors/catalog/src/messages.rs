//! Messages to a catalog's poller.

use orchestrator_supervise::Message;

use crate::config::RuleConfig;

/// Other rules: those that are as they were go on undisturbed.
#[derive(Debug, Clone)]
pub struct SetRules {
    /// All of them.
    pub rules: Vec<RuleConfig>,
}

impl Message for SetRules {
    type Result = ();
}
