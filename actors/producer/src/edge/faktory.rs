//! Faktory client: pushes jobs and reads queue lengths, over one to four connections.
//!
//! It is not the `faktory` crate, which omits the sets of `INFO`, waits for replies without a time-out and
//! does not reconnect. [`Sent`](orchestrator_edge::Sent) tells which jobs may be pushed again under the same
//! jids.

mod connection;
mod connection_task;
mod error;
mod pool;
mod protocol;
mod queue;
mod queue_gauges;
mod resp;
mod server;

pub(crate) use pool::outage;
pub use pool::{PendingPush, PoolOptions, child_spec};
pub(crate) use queue::FaktoryQueue;
pub use server::Server;
#[cfg(test)]
pub(crate) use {pool::Faktory, server::Timeouts};
