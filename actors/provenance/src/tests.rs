//! Integration tests of the stores and of the AMQP edge.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod amqp;
mod conformance;
mod load;
mod mongodb_store;
mod postgres_store;
mod sqlite_store;
