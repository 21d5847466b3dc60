//! The admin endpoint: HTTP over the supervision tree.
//!
//! It shows the tree and what happens in it, carries out operators' verbs, passes console verbs on, notes who did what,
//! and tells a probe and a scraper how things stand. It is a child of the tree like any other, on an arbiter of its own, and reads
//! [`Vitals`](orchestrator_supervise::Vitals) only, so that a stuck child cannot hide the tree. It knows no subsystem.
//!
//! Start at `router.rs`: it opens with the table of routes. [`ascii`] is shared with the CLI, and the JSON is `orchestrator_subsystem::wire`.

pub mod ascii;

mod about;
mod accept;
mod access;
mod api_error;
mod audit;
mod body;
mod command;
mod config;
mod connection_limit;
mod console;
mod endpoint;
mod error;
mod event_query;
mod event_stream;
mod events;
mod exposition;
mod gate;
mod health;
mod history;
mod history_view;
mod host_check;
mod info;
mod listeners;
mod metrics;
mod openapi;
mod page;
mod peer;
mod process;
mod readiness;
mod role;
mod router;
mod sampler;
mod seats;
mod server;
mod setup;
mod steering;
mod tally;
mod timestamp;
mod token_file;
mod tokens;
mod tree_view;
mod unix_socket;
mod why;

pub use about::About;
pub use audit::AUDIT_TARGET;
pub use config::AdminConfig;
pub use endpoint::{Binding, child_spec};
pub use error::AdminError;
pub use readiness::culprits;
pub use tokens::Reload;
