//! Storage of a queue that several instances share, in PostgreSQL.
//!
//! The schema's functions carry out the operations, so that a batch takes one round trip for all ends of jobs
//! and one for all hand-outs. Each transaction checks that no other process has taken the place of this one.

mod config;
mod error;
mod floor;
mod functions;
mod inspect;
mod lease;
mod listener;
mod migration;
mod open_store;
mod operations;
mod place;
mod pooler;
mod postgres_queue;
mod schema;
mod server_session;
mod session;
mod settings;
mod settle;
mod store;
mod texts;
mod transaction;
mod watch;

pub use config::{InstanceConfig, PostgresConfig};
pub use floor::AddedKeys;
pub use functions::search_path;
pub use inspect::PostgresInspector;
pub use lease::OwnIncarnation;
pub use migration::{PostgresSource, PostgresTarget};
pub use postgres_queue::PostgresQueue;
pub use schema::creation;
pub use settings::Settings;
pub use store::PostgresStore;
