//! Calls of clients: what is sent, what comes back, how long it may take (CONTRACT PE08 to PE10).

use orchestrator_supervise::Reply;
use std::time::Duration;

use bytes::Bytes;

use crate::{call::CallError, method::Exchange};

/// One call: messages that are sent together, and answered when all their items are stored.
#[derive(Debug)]
pub struct Call {
    /// What is sent; each message's items belong to one method and range.
    pub messages: Vec<Outgoing>,
    /// Where the end is told: how many items are stored, which is all of them, or why it is not known that they are.
    pub reply: Reply<Result<u64, CallError>>,
}

/// One message of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub exchange: Exchange,
    /// The binding key of the method and range.
    pub routing_key: String,
    /// The request's body.
    pub body: Bytes,
    /// How many items it has.
    pub items: u32,
}

/// How long a client waits for the next response of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// The most items of a message.
    pub batch_size: u32,
    /// For each batch that the call's items fill.
    pub wait_per_batch: Duration,
    /// At least so long.
    pub wait_min: Duration,
}

impl Patience {
    /// The wait for each response of a call of `expected` items.
    pub fn wait(&self, expected: u64) -> Duration {
        let batches = expected as f64 / f64::from(self.batch_size.max(1));
        let wait = Duration::try_from_secs_f64(batches * self.wait_per_batch.as_secs_f64());
        // A call of so many items that the product is no duration waits for ever, in effect.
        wait.unwrap_or(Duration::from_secs(u64::from(u32::MAX))).max(self.wait_min)
    }
}

impl Default for Patience {
    /// As the original.
    fn default() -> Self {
        let (wait_per_batch, wait_min) = (Duration::from_secs(10), Duration::from_secs(60));
        Self { batch_size: 100, wait_per_batch, wait_min }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_with_the_items_from_a_minimum() {
        let wait = |items| Patience::default().wait(items).as_secs();
        assert_eq!([wait(1), wait(600), wait(650), wait(10_000)], [60, 60, 65, 1000]);
        assert!(wait(u64::MAX) > 1_000_000);
    }
}
