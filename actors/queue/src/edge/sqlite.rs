//! Storage of the queue in a SQLite file that the Python original and other processes can read and
//! write at the same time.
//!
//! Besides the original's tables it has its own, named `orchestrator_*` (CONTRACT QD11).
//! `orchestrator_group` lists the groups that can be handed out in order, so that a dequeue never
//! scans others. Triggers update it when other programs write.

mod attempts;
mod attr;
mod bumps;
mod checkpoint;
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
#[cfg(feature = "postgres")]
mod migration;
mod offers;
mod open;
mod other_writers;
mod removal;
mod replaced;
mod requeue;
mod runs;
mod schema;
mod sibling;
mod staging;
mod store;
mod triggers;
mod unfinished;
mod view;

pub(crate) use checkpoint::{CheckpointMode, Checkpointed, Checkpointer};
pub(crate) use corrupt::set_aside;
pub(crate) use database_file::release_replaced;
pub(crate) use error::{file_replaced, link_failure};
pub(crate) use inspect::{Inspector, IsAsked};
#[cfg(feature = "postgres")]
pub(crate) use migration::{SqliteSource, SqliteTarget};
pub(crate) use store::SqliteStore;
#[cfg(test)]
pub(crate) use {open::Options, schema::create_version};
