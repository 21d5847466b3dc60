//! Network and file access.

pub mod dump;
pub mod egress;
pub mod redis;
pub mod sources;
pub mod zmtp_stream;
