//! Parts of the producer: state machines against models, clients against stand-ins.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod faktory;
mod mongodb_store;
mod original;
mod resilient;
mod simulation;
mod strict;
