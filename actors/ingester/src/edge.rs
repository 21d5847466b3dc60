//! Whatever talks to the outside.

pub mod zmtp_stream;
