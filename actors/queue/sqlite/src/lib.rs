//! Storage of the queue in a SQLite file that the Python original and other processes can read and
//! write at the same time.
//!
//! Besides the original's tables it has its own, named `orchestrator_*` (CONTRACT QD11).
//! `orchestrator_ready` lists the groups that can be handed out in order, so that a dequeue never
//! scans others. Triggers update it when other programs write.

/// SQL with the values of deliveries, see `Delivery::in_sql`. Composed once: a hand-out runs four of these.
macro_rules! delivery_sql {
    ($sql:literal) => {{
        static SQL: std::sync::LazyLock<String> =
            std::sync::LazyLock::new(|| orchestrator_queue_rules::storage::Delivery::in_sql($sql));
        SQL.as_str()
    }};
}

mod attempts;
mod attr;
mod bumps;
mod checkpoint;
mod config;
mod corrupt;
mod database_file;
mod deletion;
mod dequeue;
mod error;
mod failures;
mod groups;
mod handout;
mod heads;
mod ingest;
mod inspect;
mod limited;
mod log_file;
mod maintenance;
mod migration;
mod offers;
mod open;
mod open_store;
mod other_writers;
pub mod pause_file;
mod removal;
mod replaced;
mod requeue;
mod runs;
mod schema;
mod sibling;
mod sqlite_queue;
mod staging;
mod store;
mod triggers;
mod unfinished;
mod view;
mod wal_state;

pub use checkpoint::{CheckpointMode, Checkpointed, Checkpointer};
pub use config::{OnCorrupt, Synchronous};
pub use inspect::Inspector;
pub use log_file::LogFile;
pub use migration::{SqliteSource, SqliteTarget};
pub use open::Options;
#[cfg(feature = "testing")]
pub use schema::create_version;
pub use sqlite_queue::SqliteQueue;
pub use store::SqliteStore;
