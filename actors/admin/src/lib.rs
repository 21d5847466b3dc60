//! The admin endpoint: HTTP over the supervision tree.
//!
//! It shows the tree, carries out operator's verbs, passes console verbs on, and tells a probe and a scraper how things
//! stand. It is a child of the tree like any other, on an arbiter of its own, and reads
//! [`Vitals`](orchestrator_supervise::Vitals) only, so that a stuck child cannot hide the tree. It knows no subsystem.
//!
//! Start at `router.rs`: it opens with the table of routes. [`wire`] and [`ascii`] are shared with the CLI.

pub mod ascii;
pub mod columns;
pub mod wire;

mod accept;
mod access;
mod api_error;
mod body;
mod command;
mod config;
mod console;
mod endpoint;
mod error;
mod exposition;
mod health;
mod listeners;
mod metrics;
mod peer;
mod process;
mod readiness;
mod router;
mod same_origin;
mod server;
mod tree_view;
mod unix_socket;

pub use config::AdminConfig;
pub use endpoint::{Binding, child_spec};
pub use error::AdminError;
