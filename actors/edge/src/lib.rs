//! What all edges share: [`Reconnect`] (tries with backoff, told to the edge's link) and [`Faults`] (where tests make an
//! edge fail). An edge starts without its peer, stays alive while it is away, and comes back by itself.

#[cfg(feature = "amqp")]
pub mod amqp;
mod connection_slots;
mod descriptors;
mod faults;
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

pub use connection_slots::{ChooseLeast, ConnectionSlots, Slot, SlotEvent};
pub use descriptors::raise_descriptor_limit;
pub use faults::Faults;
pub use file_identity::{DatabaseFiles, DatabasePart, FileIdentity, FileReplaced};
pub use host_port::HostPort;
pub use limited_stream::{Excess, FrameLimit, LimitedStream, Transport};
pub use reconnect::{Reconnect, limit_retries, limited};
pub use secrets::{has_password, secret, without_user};
