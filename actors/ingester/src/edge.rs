//! Network and file access.

pub(crate) mod dump;
pub(crate) mod egress;
pub(crate) mod jobs;
pub(crate) mod play;
pub(crate) mod probe;
pub(crate) mod redis;
pub(crate) mod sources;
pub(crate) mod zmtp_stream;
