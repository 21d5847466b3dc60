//! Everything that talks to the outside.

pub mod amqp;
#[cfg(feature = "sqlite")]
pub(crate) mod dead_letters;
mod left_out;
#[cfg(feature = "mongodb")]
pub mod mongodb;
#[cfg(feature = "postgres")]
pub mod postgres;
mod reader;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod statsd;
pub(crate) mod stores;
mod writer;

use std::time::Duration;

use orchestrator_supervise::{Backoff, Fault, StartCx};

/// Waits before a store or a broker that is away is tried again (CONTRACT PE11, PX06: the original's wait is five seconds).
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// Waits; false when asked to stop meanwhile.
async fn pause(cx: &StartCx, span: Duration) -> bool {
    tokio::time::timeout(span, cx.stop.cancelled()).await.is_err()
}

/// Runs a future on this thread, with timers.
fn timed(future: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime
        .map_err(|error| Fault::new(format!("cannot start the thread's timers: {error}")))?
        .block_on(future)
}
