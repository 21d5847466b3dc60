//! Storage of a queue that several instances share, in PostgreSQL.
//!
//! The schema's functions carry out the operations, so that a batch takes one round trip for all ends of jobs
//! and one for all hand-outs. Each transaction checks that no other process has taken the place of this one.

mod error;
mod floor;
mod functions;
mod inspect;
mod lease;
mod listener;
mod migration;
mod operations;
mod place;
pub(crate) mod pooler;
mod rules;
mod server_session;
mod session;
mod settings;
mod settle;
mod store;
mod texts;
mod transaction;
mod watch;

pub(crate) use error::link_failure;
pub(crate) use floor::AddedKeys;
#[cfg(test)]
pub(crate) use functions::FUNCTIONS;
pub(crate) use inspect::PostgresInspector;
pub(crate) use lease::{Lease, OwnIncarnation};
pub(crate) use listener::Listener;
pub(crate) use migration::{PostgresSource, PostgresTarget};
#[cfg(test)]
pub(crate) use rules::Rules;
pub(crate) use session::creation;
pub(crate) use settings::{Settings, address, instance_file, instance_name};
pub(crate) use store::PostgresStore;
pub(crate) use watch::{ServerWatch, WaitingJobs};
