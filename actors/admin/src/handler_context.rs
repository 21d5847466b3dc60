//! The context of all request handlers.

use std::sync::Arc;

use orchestrator_supervise::{StopToken, Tree};

use crate::{
    admin_metrics::AdminMetrics, command_executor::CommandExecutor, connection_slots::ConnectionSlots,
    endpoint_state::EndpointState,
};

/// State that all handlers of one socket share, for one incarnation of the endpoint.
#[derive(Debug, Clone)]
pub(crate) struct HandlerContext {
    pub(crate) tree: Tree,
    /// The endpoint's own path.
    pub(crate) own_path: String,
    /// Cancelled when the endpoint has to stop.
    pub(crate) stop: StopToken,
    /// Cancelled when the servers have to stop, also to restart with one more socket.
    pub(crate) closing: StopToken,
    pub(crate) state: Arc<EndpointState>,
    pub(crate) metrics: AdminMetrics,
    /// Slots for the readers of events on this socket.
    pub(crate) event_slots: ConnectionSlots,
}

impl HandlerContext {
    /// Time when the tree was built, in milliseconds since 1970. Constant during the life of the process.
    pub(crate) fn started_ms(&self) -> u64 {
        *self.state.started_ms.get_or_init(|| {
            let snapshot = self.tree.snapshot();
            snapshot.captured_at_ms.saturating_sub(snapshot.uptime_ms)
        })
    }

    /// Returns the executor of all commands.
    pub(crate) fn executor(&self) -> CommandExecutor<'_> {
        CommandExecutor {
            tree: &self.tree,
            audit: &self.state.audit,
            console_pauses: &self.state.console_pauses,
            metrics: &self.metrics,
            own_path: &self.own_path,
            stop: &self.stop,
        }
    }
}
