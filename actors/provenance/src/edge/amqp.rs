//! RabbitMQ: the exchanges and queues (CONTRACT PP01), the child that consumes them for the workers, and the child
//! that publishes to them for callers.
//!
//! Order is what this edge is about (CONTRACT PO08): a message is acknowledged to the broker once all its rows are stored,
//! or safe among the dead letters, on the channel that delivered it; only then its client is told. Whatever breaks in
//! between, the broker delivers the message again, its rows are stored again, which changes nothing, and the client gets
//! one answer or none, never two.

mod call;
mod consumer;
mod consumer_context;
mod dead_letter;
mod desk;
mod ledger;
mod line;
mod presence;
mod publisher;
mod topology;
mod worker_channel;

pub use call::{Call, Outgoing, Patience};
pub use consumer::{Consumption, factory};
pub use consumer_context::Sink;
pub use dead_letter::DEAD_LETTER;
pub use presence::Presence;
pub use publisher::{Publication, client};
pub use topology::{Topology, declare_worker};
