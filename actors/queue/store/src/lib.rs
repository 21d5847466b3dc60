//! Traits of a store outside of its transactions: children, links, preflight, files to back up, the pause,
//! maintenance, questions, and the two sides of a migration.
//!
//! The crates `orchestrator-queue-sqlite` and `orchestrator-queue-postgres` implement these traits; the
//! application knows only the traits. Comments cite the rules of the queue's `CONTRACT.md` by number.

mod last_request;
mod maintenance;
pub mod migration;
mod open_store;
pub mod questions;
mod store;
mod unix_time;

pub use last_request::{LOG_TIMES, LastRequest};
pub use maintenance::{Answering, IsAsked, Maintenance, Upkeep};
pub use open_store::{OpenStore, Stopped};
pub use store::{Store, Wiring};
pub use unix_time::unix_time;
