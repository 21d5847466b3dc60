//! What every handler is given.

use std::sync::Arc;

use orchestrator_supervise::{StopToken, Tree};

use crate::{seats::Seats, setup::Setup, steering::Steering, tally::Tally};

/// Shared by all connections of one incarnation.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) tree: Tree,
    /// The endpoint's own path.
    pub(crate) own_path: String,
    /// Cancelled when the endpoint itself must go.
    pub(crate) stop: StopToken,
    /// Cancelled when the servers must go, be it only to come back with one more socket.
    pub(crate) closing: StopToken,
    pub(crate) setup: Arc<Setup>,
    pub(crate) tally: Tally,
    /// For readers of events, on this socket.
    pub(crate) seats: Seats,
}

impl Access {
    /// When the tree was built, milliseconds since 1970; the same at every call.
    pub(crate) fn started_ms(&self) -> u64 {
        *self.setup.started_ms.get_or_init(|| {
            let snapshot = self.tree.snapshot();
            snapshot.captured_at_ms.saturating_sub(snapshot.uptime_ms)
        })
    }

    /// The choke point for whatever changes something.
    pub(crate) fn steering(&self) -> Steering<'_> {
        Steering {
            tree: &self.tree,
            audit: &self.setup.audit,
            tally: &self.tally,
            own_path: &self.own_path,
            stop: &self.stop,
        }
    }
}
