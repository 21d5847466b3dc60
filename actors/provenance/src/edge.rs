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

use orchestrator_supervise::StartCx;

/// Waits for `future`; None if the child is stopped first. A blocking future is never interrupted.
async fn unless_stopped<T>(cx: &StartCx, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = cx.stop.cancelled() => None,
    }
}
