//! Reasons why an action is not carried out.

use crate::pace::{Peer, Stopped};

/// Why an action was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    Stopped,
    LeaseLost,
    /// Only where nothing is tried again.
    Failed(Peer, String),
}

impl From<Stopped> for Trouble {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}
