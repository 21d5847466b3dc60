//! RabbitMQ: exchanges and queues (CONTRACT PP01), the child that consumes them for the workers,
//! and the child that publishes to them for clients.
//!
//! A message is acknowledged once all its rows are stored or published as dead letters, on the
//! channel that delivered it. Its client is answered afterwards (CONTRACT PO08). After a failure in
//! between, the broker delivers the message again. Storing its rows again changes nothing, and the
//! client gets at most one response.

mod call;
mod client_connection;
mod consumer;
mod consumer_context;
mod dead_letter;
mod delivery_tags;
mod pending_calls;
mod publisher;
mod queues;
mod readiness;
mod redeliveries;
mod topology;
mod unacked_message;
mod worker_channel;

pub(crate) use call::ResponseTimeouts;
pub use call::{Call, Outgoing};
pub(crate) use consumer::{ConsumerOptions, factory};
pub(crate) use consumer_context::Sink;
pub(crate) use dead_letter::DEAD_LETTER;
pub use publisher::{PublisherOptions, client};
pub(crate) use readiness::ConsumerReadiness;
pub(crate) use topology::Topology;
