//! Faktory: pushes jobs and asks how many are left, over one to four connections of our own.
//!
//! The crate `faktory` is not used: it leaves the sets out of `INFO`, waits for ever for a reply, and does not come back after a
//! lost connection. What matters most here is what became of a push, see [`PushError`].

mod connection;
mod error;
mod flow;
mod handshake;
mod info;
mod lane;
mod queue;
mod resp;
mod server;
mod verdict;

pub use error::{FaktoryError, PushError, Pushed, Refusal};
pub use flow::{Faktory, Flow, POOL, Pending, child_spec, outage};
pub use handshake::Password;
pub use queue::FaktoryQueue;
pub use server::{Patience, Server};
