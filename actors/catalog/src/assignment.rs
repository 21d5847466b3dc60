//! Commands of the poller to a rule's child. They outlive the child's incarnations.

use std::sync::Arc;

use tokio::sync::{broadcast, mpsc, watch};

use crate::{
    config::RuleConfig,
    row_question::{RowQuestion, RuleView},
};

/// Questions that wait for an agent; older ones are dropped.
const QUESTIONS: usize = 16;

/// Commands to a rule's child.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Commands {
    /// Rule to run; None: the child finishes the claimed rows and ends.
    pub(crate) config: Option<RuleConfig>,
    /// Number of polls requested by operators.
    pub(crate) forced_polls: u64,
    /// The child has ended for good.
    ended: bool,
}

/// Commands of one rule's child. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Assignment(Arc<watch::Sender<Commands>>, broadcast::Sender<RowQuestion>);

impl Assignment {
    pub(crate) fn new(config: RuleConfig) -> Self {
        let commands = Commands { config: Some(config), forced_polls: 0, ended: false };
        Self(Arc::new(watch::Sender::new(commands)), broadcast::Sender::new(QUESTIONS))
    }

    /// Subscribes the child to its commands.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Commands> {
        self.0.subscribe()
    }

    /// Subscribes an agent to the questions of operators.
    pub(crate) fn questions(&self) -> broadcast::Receiver<RowQuestion> {
        self.1.subscribe()
    }

    /// Asks all agents about the row with this key. The answers end once each has answered or is gone.
    pub(crate) fn ask(&self, key: &str) -> mpsc::UnboundedReceiver<RuleView> {
        let (reply, answers) = mpsc::unbounded_channel();
        // Without an agent there is no answer.
        drop(self.1.send(RowQuestion { key: key.into(), reply }));
        answers
    }

    /// Requests a poll that also ends parking and backoff.
    pub(crate) fn force_poll(&self) {
        self.0.send_modify(|commands| commands.forced_polls += 1);
    }

    /// Replaces or removes the rule; returns false if the child has ended for good.
    pub(crate) fn change(&self, config: Option<RuleConfig>) -> bool {
        self.0.send_if_modified(|commands| {
            if !commands.ended {
                commands.config = config;
            }
            !commands.ended
        })
    }

    /// Ends the child for good unless it has a rule; returns true if it ends.
    pub(crate) fn end(&self) -> bool {
        let mut ends = false;
        self.0.send_if_modified(|commands| {
            ends = commands.config.is_none();
            commands.ended |= ends;
            false
        });
        ends
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.borrow().ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_ends_only_without_a_rule_and_then_accepts_none() {
        let assignment = Assignment::new(RuleConfig::default());
        assert!(!assignment.end());
        assert!(assignment.change(None));
        assert!(assignment.change(Some(RuleConfig::default())), "it has not ended yet");
        assert!(!assignment.end() && !assignment.has_ended());
        assert!(assignment.change(None) && assignment.end() && assignment.has_ended());
        assert!(!assignment.change(Some(RuleConfig::default())));
    }
}
