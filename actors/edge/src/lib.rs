//! Shared parts of edges, the children that talk to peers outside the process. An edge starts without its
//! peer, keeps running while the peer is down, and reconnects by itself.
//!
//! [`LinkState`] counts failures, reports the link and waits for the next attempt, by a [`RetryPolicy`].
//! [`Reconnecting`] has the loop of an edge that stays connected with it. [`catch_panic`] makes a failed call
//! of a client library's panic. [`LimitedStream`] fails when a peer sends too much.
//! [`ConnectionSlots`] accepts connections up to a limit. The features `amqp`, `http`,
//! `mongodb`, `postgres`, `sqlite` and `tls` add parts of clients that more than one edge uses, and `process`
//! adds programs; `delivery` delivers JSON to either.

#[cfg(feature = "amqp")]
pub mod amqp;
#[cfg(any(feature = "http", feature = "process"))]
pub mod capture;
mod connection_slots;
mod database_lock;
#[cfg(feature = "delivery")]
pub mod delivery;
mod descriptors;
mod dial;
mod disk;
mod file_failure;
mod file_identity;
mod host_port;
#[cfg(feature = "http")]
pub mod http;
mod library_call;
mod limited_stream;
mod link_state;
#[cfg(feature = "mongodb")]
pub mod mongodb;
mod peer_error;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "process")]
pub mod process;
mod reconnecting;
mod regular_file;
mod retry_policy;
mod secrets;
mod setting_error;
mod shell_word;
mod socket_access;
mod socket_listener;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod suffix;
mod timed;
#[cfg(feature = "tls")]
pub mod tls;

pub use connection_slots::{ConnectionEvent, ConnectionSlot, ConnectionSlots, EvictionPolicy};
pub use database_lock::DatabaseLock;
pub use descriptors::raise_descriptor_limit;
pub use dial::dial;
pub use disk::{free_space, is_full, report_full};
pub use file_failure::file_failure;
pub use file_identity::{DatabaseFiles, DatabasePart, FileIdentity, FileReplaced};
pub use host_port::HostPort;
pub use library_call::{catch_panic, catch_panic_now};
pub use limited_stream::{FrameLimit, LimitError, LimitedStream, Transport};
pub use link_state::LinkState;
pub use peer_error::{PeerError, PeerErrorKind, Sent};
pub use reconnecting::Reconnecting;
pub use regular_file::{
    check_database_files, check_database_path, open_regular, open_regular_no_link, read_at_most,
    read_regular, read_text,
};
pub use retry_policy::{Retries, RetryPolicy};
pub use secrets::{
    exposure, open_secret_file, read_secret, read_secret_file, warn_if_exposed, without_credentials,
};
pub use setting_error::SettingError;
pub use shell_word::shell_word;
pub use socket_access::{SocketAccess, check_socket_path};
pub use socket_listener::SocketListener;
pub use suffix::with_suffix;
pub use timed::timed;
