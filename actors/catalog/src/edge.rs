//! Everything that talks to the outside.

pub mod credentials;
pub mod handlers;
pub mod http;
pub mod notices;
