//! Limit of long-lived responses. Each socket has its own, so that unauthenticated clients on TCP cannot
//! block operators on the unix socket.

use std::sync::Arc;

use orchestrator_observe::{GaugeGuard, Metric};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limit of one socket. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct ResponseLimit {
    pub(crate) max: usize,
    free: Arc<Semaphore>,
    gauge: Metric,
}

/// Permit of one response, with its share of the gauge.
pub(crate) type ResponsePermit = (OwnedSemaphorePermit, GaugeGuard);

impl ResponseLimit {
    /// Creates a limit of `max` responses, which `gauge` counts.
    pub(crate) fn new(max: usize, gauge: &Metric) -> Self {
        Self { max, free: Arc::new(Semaphore::new(max)), gauge: gauge.clone() }
    }

    /// None if no permit is free.
    pub(crate) fn take(&self) -> Option<ResponsePermit> {
        let permit = self.free.clone().try_acquire_owned().ok()?;
        Some((permit, self.gauge.hold()))
    }
}
