//! For tests and benches: the real binary on a site of its own, workers on its real socket, its real database.
//!
//! Nothing here waits a fixed time: [`eventually`] waits for a condition, with a deadline far beyond what any needs.

mod admin;
mod catalog;
mod child_logs;
mod controller;
mod database;
mod deriva;
pub mod dranspose;
mod ermrest;
mod events;
mod faktory;
mod faktory_worker;
mod instance;
pub mod load;
mod mongodb;
pub mod original;
mod own_process;
mod postgres;
mod producer;
mod provenance;
mod python;
mod rabbit;
mod redis;
mod site;
mod small_disk;
mod stand_in;
mod strangers;
mod tree;
mod validity;
mod worker;
mod zmtp;

pub use admin::{HttpReply, http, http_tcp, try_http, try_raw};
pub use catalog::{CatalogSite, WHOLE_RULE};
pub use controller::{Controller, IngesterSite};
pub use database::Database;
pub use deriva::{DerivaAgent, Done, Step};
pub use ermrest::Ermrest;
pub use events::{EventReader, Told};
pub use faktory::{Faktory, PyFaktory};
pub use faktory_worker::FaktoryWorker;
pub use instance::Instance;
pub use mongodb::MongoDb;
pub use own_process::own_process;
pub use postgres::{Postgres, psql};
pub use producer::{DATABASE, ProducerSite, STENCILS, TANGLES, Tanglenomicon};
pub use provenance::{ProvenanceSite, sha1_of};
pub use rabbit::Rabbit;
pub use redis::{Redis, free_port};
pub use site::Site;
pub use small_disk::SmallDisk;
pub use strangers::{Wave, slow_strangers, wave};
pub use tree::{Link, Snapshot};
pub use validity::{assert_valid, snapshot_of};
pub use worker::{Reply, Worker};
pub use zmtp::ZmtpPeer;

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Longest wait for a condition.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `condition` gives a value.
///
/// # Panics
/// If it gives none within [`DEADLINE`]; `what` names it, and the last lines of the test's processes follow.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + DEADLINE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(
            Instant::now() < give_up,
            "gave up waiting for {what}; last lines:{}",
            child_logs::last_lines()
        );
        sleep(Duration::from_millis(2));
    }
}

/// Waits until `condition` holds.
///
/// # Panics
/// As [`wait_for`].
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Number of seeds or rounds for a randomised test: `variable` from the environment, else `default`.
pub fn rounds(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
