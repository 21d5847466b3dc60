//! Whatever talks to the outside.

pub mod egress;
pub mod sources;
pub mod zmtp_stream;
