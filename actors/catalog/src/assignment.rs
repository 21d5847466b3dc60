//! Orders of the poller to a rule's child. Declared state, which outlives the child's incarnations.

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::RuleConfig;

/// Orders to a rule's child.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Orders {
    /// The rule; None: the child finishes what is claimed, and ends.
    pub(crate) config: Option<RuleConfig>,
    /// Grows when there may be work.
    pub(crate) looks: u64,
    /// Grows when an operator wants a look, whatever keeps the rule from it.
    pub(crate) demands: u64,
    /// The child has ended for good.
    ended: bool,
}

/// The orders of one rule's child. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Assignment(Arc<watch::Sender<Orders>>);

impl Assignment {
    /// A rule to be followed.
    pub(crate) fn new(config: RuleConfig) -> Self {
        let orders = Orders { config: Some(config), looks: 0, demands: 0, ended: false };
        Self(Arc::new(watch::Sender::new(orders)))
    }

    /// The orders, for the child.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Orders> {
        self.0.subscribe()
    }

    /// There may be work.
    pub(crate) fn look(&self) {
        self.0.send_modify(|orders| orders.looks += 1);
    }

    /// An operator wants a look.
    pub(crate) fn demand_look(&self) {
        self.0.send_modify(|orders| orders.demands += 1);
    }

    /// Gives the child another rule, or none; false if it has ended for good.
    pub(crate) fn change(&self, config: Option<RuleConfig>) -> bool {
        self.0.send_if_modified(|orders| {
            if !orders.ended {
                orders.config = config;
            }
            !orders.ended
        })
    }

    /// Ends the child for good unless it has a rule to follow; true if it ends.
    pub(crate) fn end(&self) -> bool {
        let mut ends = false;
        self.0.send_if_modified(|orders| {
            ends = orders.config.is_none();
            orders.ended |= ends;
            false
        });
        ends
    }

    /// Tells whether the child has ended for good.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.borrow().ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_ends_only_without_a_rule_and_then_takes_no_other() {
        let assignment = Assignment::new(RuleConfig::default());
        assert!(!assignment.end());
        assert!(assignment.change(None));
        assert!(assignment.change(Some(RuleConfig::default())), "it has not ended yet");
        assert!(!assignment.end() && !assignment.has_ended());
        assert!(assignment.change(None) && assignment.end() && assignment.has_ended());
        assert!(!assignment.change(Some(RuleConfig::default())));
    }
}
