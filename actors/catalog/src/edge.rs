//! Connections to other processes: server, broker and handlers.

pub mod credentials;
pub mod handlers;
pub mod http;
pub mod notices;
pub mod session;
