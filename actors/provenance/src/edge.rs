//! Input and output: stores, RabbitMQ, statsd and the dead letter file.

pub(crate) mod amqp;
#[cfg(feature = "sqlite")]
pub(crate) mod dead_letters;
#[cfg(feature = "mongodb")]
pub(crate) mod mongodb;
mod omissions;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
mod reader;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod relation_keys;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
pub(crate) mod statsd;
pub(crate) mod stores;
mod writer;

use std::time::Duration;

use orchestrator_supervise::{Backoff, Fault, StartCx};

/// Delays before a store or broker is tried again (CONTRACT PE11, PX06).
const RETRY: Backoff = Backoff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// Waits for `span`; returns false if the child is stopped meanwhile.
async fn pause(cx: &StartCx, span: Duration) -> bool {
    tokio::time::timeout(span, cx.stop.cancelled()).await.is_err()
}

/// Waits for `future`; None if the child is stopped first. A blocking future is never interrupted.
async fn unless_stopped<T>(cx: &StartCx, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = cx.stop.cancelled() => None,
    }
}

/// Runs `future` on this thread, with timers.
fn timed(future: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime
        .map_err(|error| Fault::new(format!("cannot start the thread's timers: {error}")))?
        .block_on(future)
}
