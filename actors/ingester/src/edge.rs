//! Whatever talks to the outside.

pub mod egress;
pub mod zmtp_stream;
