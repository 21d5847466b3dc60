//! Calls of clients and their time-outs (CONTRACT PE08 to PE10).

use orchestrator_supervise::Reply;
use std::time::Duration;

use bytes::Bytes;

use crate::{call::CallError, method::Exchange};

/// Messages sent together, and answered when all their items are stored.
#[derive(Debug)]
pub struct Call {
    /// The messages; the items of each have one method and one range.
    pub messages: Vec<Outgoing>,
    /// Receives the number of stored items, which is all of them, or the error.
    pub reply: Reply<Result<u64, CallError>>,
}

/// Message of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Exchange of the method.
    pub exchange: Exchange,
    /// Binding key of the method and range.
    pub routing_key: String,
    /// Body of the request.
    pub body: Bytes,
    /// Number of items.
    pub items: u32,
}

/// Time that a client waits for the next response of a call (CONTRACT PE08).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseTimeouts {
    /// Maximum number of items in a message.
    pub batch_size: u32,
    /// Time for each batch of the call's items.
    pub wait_per_batch: Duration,
    /// Minimum time.
    pub wait_min: Duration,
}

impl ResponseTimeouts {
    /// Time-out of each response to a call of `expected` items.
    pub fn wait(&self, expected: u64) -> Duration {
        let batches = expected as f64 / f64::from(self.batch_size.max(1));
        let wait = Duration::try_from_secs_f64(batches * self.wait_per_batch.as_secs_f64());
        // A product beyond the range of Duration waits practically forever.
        wait.unwrap_or(Duration::from_secs(u64::from(u32::MAX))).max(self.wait_min)
    }
}

impl Default for ResponseTimeouts {
    /// The original's defaults.
    fn default() -> Self {
        let (wait_per_batch, wait_min) = (Duration::from_secs(10), Duration::from_secs(60));
        Self { batch_size: 100, wait_per_batch, wait_min }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_out_grows_with_the_items_from_a_minimum() {
        let wait = |items| ResponseTimeouts::default().wait(items).as_secs();
        assert_eq!([wait(1), wait(600), wait(650), wait(10_000)], [60, 60, 65, 1000]);
        assert!(wait(u64::MAX) > 1_000_000);
    }
}
