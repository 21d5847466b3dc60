//! The context of all request handlers.

use std::{sync::Arc, time::Duration};

use orchestrator_supervise::{StopToken, Tree};
use tokio::time::timeout;

use crate::{
    admin_metrics::AdminMetrics, api_error::ApiError, endpoint_state::EndpointState, response::Response,
    response_limit::ResponseLimit,
};

/// Delay of the response if no slot is free. With the maximum number of connections, it limits such responses
/// to a few hundred a second.
const REFUSAL_DELAY: Duration = Duration::from_millis(250);

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
    /// Limit of the readers of events on this socket.
    pub(crate) event_limit: ResponseLimit,
    /// Limit of the readers of exports on this socket.
    pub(crate) export_limit: ResponseLimit,
}

impl HandlerContext {
    /// Time when the tree was built, in milliseconds since 1970. Constant during the life of the process.
    pub(crate) fn started_ms(&self) -> u64 {
        *self.state.started_ms.get_or_init(|| {
            let snapshot = self.tree.snapshot();
            snapshot.captured_at_ms.saturating_sub(snapshot.uptime_ms)
        })
    }

    /// Answers a request that found no free slot, after a delay.
    pub(crate) async fn no_slot(&self, message: String) -> Response {
        // A stop does not wait for the delay.
        let _ = timeout(REFUSAL_DELAY, self.closing.cancelled()).await;
        ApiError::busy(message)
    }
}
