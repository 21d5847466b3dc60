//! Programs of former commits and today's, one after the other on the same files and servers, while clients
//! work.
//!
//! A site begins with a former program. It is replaced by today's, by the former one again, and by today's
//! again. Nothing that was acknowledged is lost, and nothing is repeated beyond what the contract of the
//! subsystem allows for a stop or a kill. Instances of two versions on one shared queue are in
//! `tests/queue_process/postgres/in_full.rs`.

mod backup;
mod broker_queues;
mod hooks;
mod importer;
mod installed;
mod mapping_jobs;
mod newer_files;
mod producer;
mod provenance;
mod queue;
mod spill;

use std::path::Path;

/// Last commit of 0.2.0.
const RELEASE: &str = "a220d3c5";
/// Later commit with hooks and backups, which 0.2.0 does not have. It names the tables of `queue.db` as 0.2.0
/// does, and counts as many as today's program did before it had a view.
const LATER: &str = "dbb118a5";

/// Today's program.
fn today() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_orchestrator"))
}
