//! Faktory client: pushes jobs and reads queue lengths, over one to four connections.
//!
//! It is not the `faktory` crate, which omits the sets of `INFO`, waits for replies without a time-out and does not
//! reconnect. [`PushError`] reports which jobs may be pushed again under the same jids.

mod connection;
mod connection_task;
mod error;
mod pool;
mod protocol;
mod queue;
mod resp;
mod server;

pub use error::{FaktoryError, PushError, Refusal};
pub use pool::{Faktory, POOL, PendingPush, PoolOptions, child_spec, outage};
pub use queue::FaktoryQueue;
pub use server::{Server, Timeouts};
