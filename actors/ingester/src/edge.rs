//! Network and file access.

pub mod dump;
pub mod egress;
pub(crate) mod play;
pub(crate) mod probe;
pub mod redis;
pub mod sources;
pub mod zmtp_stream;
