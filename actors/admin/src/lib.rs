//! The admin endpoint: HTTP over the supervision tree.
//!
//! It serves the tree, its events and history, health checks and metrics, executes operators' commands and
//! keeps an audit log. It is a child of the tree with an arbiter of its own. It reads only
//! [`Vitals`](orchestrator_supervise::Vitals), so that a stuck child cannot hide the tree, and it knows no
//! subsystem.
//!
//! `router.rs` begins with the table of routes. The CLI shares [`ascii`], [`timestamp`] and the JSON types in
//! `orchestrator_subsystem::wire`.

pub mod ascii;
pub mod timestamp;

mod accept_header;
mod admin_metrics;
mod api_error;
mod audit;
mod authentication;
mod body;
mod command;
mod command_executor;
mod config;
mod connection_limit;
mod crashes;
mod endpoint;
mod endpoint_state;
mod error;
mod event_query;
mod event_stream;
mod events;
mod export;
mod exposition;
mod fault;
mod greeting;
mod handler_context;
mod health;
mod history;
mod history_view;
mod host_check;
mod info;
mod listeners;
mod memory;
mod metrics;
mod openapi;
mod page;
mod peer;
mod peer_help;
mod port_owner;
mod process;
mod program_info;
mod readiness;
mod reload;
mod request;
mod response;
mod response_limit;
mod role;
mod route_entry;
mod router;
mod sampler;
mod server;
mod shown_state;
mod token_file;
mod tokens;
mod tree_view;
mod unix_socket;
mod waiting;
mod why;
mod why_item;

pub use audit::AUDIT_TARGET;
pub use config::AdminConfig;
pub use endpoint::{Binding, child_spec};
pub use error::AdminError;
pub use greeting::greeting;
pub use port_owner::listening_users;
pub use program_info::ProgramInfo;
pub use readiness::{STOPPING, readiness_failures};
pub use reload::Reload;
