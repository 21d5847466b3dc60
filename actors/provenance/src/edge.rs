//! Everything that talks to the outside.

pub mod amqp;
pub(crate) mod dead_letters;
mod left_out;
pub mod mongodb;
pub mod postgres;
mod reader;
pub mod sqlite;
pub mod statsd;
pub(crate) mod stores;
mod writer;

use std::time::Duration;

use orchestrator_supervise::{Backoff, StartCx};

/// Waits before a store or a broker that is away is tried again (contract §5: the original's wait is five seconds).
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// Waits; false when asked to stop meanwhile.
async fn pause(cx: &StartCx, span: Duration) -> bool {
    tokio::time::timeout(span, cx.stop.cancelled()).await.is_err()
}
