//! Everything that talks to the outside.

pub mod credentials;
pub mod handlers;
mod head_limit;
pub mod http;
pub mod notices;
