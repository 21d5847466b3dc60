//! Storage of a queue that several instances share, in PostgreSQL.
//!
//! The schema's functions carry out the operations, so that a batch takes one round trip for all ends of jobs
//! and one for all hand-outs. Each transaction checks that no other process has taken its instance.

mod config;
mod error;
mod functions;
mod inspect;
mod instance_lock;
mod lease;
mod listener;
mod migration;
mod open_store;
mod operations;
mod pooler;
mod postgres_queue;
mod scan_start;
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
pub use functions::search_path;
pub use inspect::PostgresInspector;
pub use lease::OwnIncarnation;
pub use migration::{PostgresSource, PostgresTarget};
pub use postgres_queue::PostgresQueue;
pub use scan_start::AddedKeys;
pub use schema::creation;
pub use settings::Settings;
pub use store::PostgresStore;
