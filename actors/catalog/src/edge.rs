//! Everything that talks to the outside.

pub mod handlers;
