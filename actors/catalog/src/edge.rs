//! Connections to other processes: server, broker and handlers.

pub(crate) mod credentials;
pub(crate) mod handlers;
pub(crate) mod http;
pub(crate) mod notices;
pub(crate) mod session;
