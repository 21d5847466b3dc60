//! What all edges share. An edge starts without its peer, stays alive while it is away, and comes back by itself.
//!
//! [`Reconnect`] spaces tries and tells the edge's link, [`LimitedStream`] ends a connection whose peer sends too much, [`ConnectionSlots`]
//! accepts connections up to a limit, and [`FaultInjector`] is where tests make an edge fail. With the features `amqp`, `http`, `mongodb` and
//! `tls` there are the clients that more than one edge has.

#[cfg(feature = "amqp")]
pub mod amqp;
mod connection_slots;
mod descriptors;
mod fault_injector;
mod file_identity;
mod host_port;
#[cfg(feature = "http")]
pub mod http;
mod limited_stream;
#[cfg(feature = "mongodb")]
pub mod mongodb;
mod reconnect;
mod secrets;
#[cfg(feature = "tls")]
pub mod tls;

pub use connection_slots::{ConnectionEvent, ConnectionSlot, ConnectionSlots, EvictionPolicy};
pub use descriptors::raise_descriptor_limit;
pub use fault_injector::FaultInjector;
pub use file_identity::{DatabaseFiles, DatabasePart, FileIdentity, FileReplaced};
pub use host_port::HostPort;
pub use limited_stream::{FrameLimit, LimitError, LimitedStream, Transport};
pub use reconnect::{Reconnect, cap_backoff, set_retry_max};
pub use secrets::{has_password, read_secret, without_credentials};
