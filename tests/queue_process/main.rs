//! Tests of the queue in the real binary: workers on its socket, fetcher files, its database, and
//! faults.

mod alone;
mod delivery;
mod descriptors;
mod dialogue;
mod directory;
mod disk_full;
mod export;
mod files;
mod hooks;
mod limits;
mod links;
mod locks;
mod log;
mod memory;
mod names_and_bytes;
mod operators;
mod postgres;
mod protocol;
mod replaced;

use orchestrator_harness::TestEnv;

fn site() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}
