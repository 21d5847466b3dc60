//! Everything that talks to the outside.

pub mod amqp;
pub mod postgres;
mod reader;
pub mod sqlite;
mod writer;

use std::time::Duration;

use orchestrator_supervise::{Backoff, StartCx};

pub(crate) use self::{reader::run as read, writer::run as write};

/// Waits before a store that is away is tried again.
pub(crate) const RETRY: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// Waits; false when asked to stop meanwhile.
async fn pause(cx: &StartCx, span: Duration) -> bool {
    tokio::time::timeout(span, cx.stop.cancelled()).await.is_err()
}
