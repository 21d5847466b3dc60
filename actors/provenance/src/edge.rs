//! Everything that talks to the outside.

pub mod amqp;
pub mod mongodb;
pub mod postgres;
mod reader;
pub mod sqlite;
pub(crate) mod stores;
mod writer;

use std::time::Duration;

use orchestrator_supervise::{Backoff, StartCx};

/// Waits before a store that is away is tried again.
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// Waits; false when asked to stop meanwhile.
async fn pause(cx: &StartCx, span: Duration) -> bool {
    tokio::time::timeout(span, cx.stop.cancelled()).await.is_err()
}
