//! The parts of the producer: its rules against models, its edges against stand-ins.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod faktory;
mod mongodb_store;
mod original;
mod resilient;
mod strict;
mod world;
