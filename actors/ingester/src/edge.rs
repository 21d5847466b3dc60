//! Whatever talks to the outside.

pub mod dump;
pub mod redis;
