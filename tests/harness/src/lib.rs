//! Test environments and peers: starts the real binary, its servers and its clients, for tests and benches.
//!
//! [`TestEnv`] is a directory with one instance; the other types start servers and clients of the subsystems.
//! Waits are for a condition with a deadline ([`eventually`], [`wait_for`]), never for a fixed time.

mod admin;
mod catalog;
mod certificates;
mod child_logs;
mod connection_flood;
mod controller;
mod database;
mod database_check;
mod deriva;
pub mod dranspose;
mod ermrest;
mod events;
mod fake_server;
mod faktory;
mod faktory_worker;
mod former;
mod instance;
mod job_workers;
mod json_schema;
pub mod load;
mod mongodb;
mod open_session;
pub mod original;
mod own_process;
mod pgbouncer;
mod pictures;
mod postgres;
mod producer;
mod prometheus;
mod provenance;
mod pty;
mod python;
mod rabbit;
mod redis;
mod small_disk;
mod suite;
mod test_env;
mod tree;
mod unit_file;
mod webhook;
mod why;
mod worker;
mod zmtp;

pub use admin::{HttpReply, http, http_tcp, raw_tcp, try_http};
pub use catalog::{CatalogEnv, FULL_RULE, LEASED_RULE};
pub use certificates::{CERTIFICATE_CASES, CertificateCase, certificate_file};
pub use connection_flood::{ReaderFlood, open_event_readers, open_stalled_connections};
pub use controller::{Controller, IngesterEnv};
pub use database::Database;
pub use database_check::{assert_attempts_match_log, assert_valid_database, copy_database};
pub use deriva::{AgentEvent, AgentStep, DerivaAgent, deriva_python, deriva_session, deriva_state_changes};
pub use ermrest::Ermrest;
pub use events::{AdminEvent, EventReader};
pub use faktory::{Faktory, PyFaktoryWorker};
pub use faktory_worker::FaktoryWorker;
pub use former::former_program;
pub use instance::Instance;
pub use job_workers::JobWorkers;
pub use json_schema::json_schema_errors;
pub use mongodb::MongoDb;
pub use open_session::OpenSession;
pub use own_process::own_process;
pub use pgbouncer::PgBouncer;
pub use pictures::Picture;
pub use postgres::{PASSWORD_USER, Postgres, psql, psql_with};
pub use producer::{DATABASE, ProducerEnv, STENCILS, TANGLES, Tanglenomicon};
pub use prometheus::Prometheus;
pub use provenance::{ProvenanceEnv, sha1_of};
pub use pty::PtyProgram;
pub use rabbit::Rabbit;
pub use redis::{Redis, free_port};
pub use small_disk::SmallDisk;
pub use test_env::TestEnv;
pub use tree::{Link, Snapshot};
pub use unit_file::UnitFile;
pub use webhook::{Post, Webhook};
pub use why::PrintedCause;
pub use worker::{Reply, Worker};
pub use zmtp::ZmtpPeer;

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Deadline of every wait for a condition.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `condition` returns a value. It is evaluated for a fifth of the time at most: reading a tree
/// takes both processes milliseconds, and other tests run meanwhile.
///
/// # Panics
/// If there is none within [`DEADLINE`]. The message has `what` and the last log lines of the test's
/// processes.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + DEADLINE;
    loop {
        let begun = Instant::now();
        if let Some(value) = condition() {
            return value;
        }
        let pause = (begun.elapsed() * 4).clamp(Duration::from_millis(2), Duration::from_millis(100));
        assert!(
            Instant::now() < give_up,
            "gave up waiting for {what}; last lines:{}",
            child_logs::last_lines()
        );
        sleep(pause);
    }
}

/// Waits until `condition` is true.
///
/// # Panics
/// As [`wait_for`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Number of rounds of a randomized test: the environment variable `variable`, or `default`.
pub fn rounds(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
