//! Errors of an action.

use orchestrator_observe::LinkFailure;

use crate::environment::{Peer, Stopped};

/// Reason why an action was not completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ActionError {
    Stopped,
    LeaseLost,
    /// A peer failed in strict mode, which does not retry.
    Failed(Peer, LinkFailure),
}

impl From<Stopped> for ActionError {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}
