//! The real dranspose 0.2.0 with our ingester in the place of its own: its controller, its workers and its reducer on a real Redis,
//! with sources that use the real libzmq. Every event of every scan is compared: with the map that was posted, with the
//! controller's assignments, and with the bytes that were sent.
//!
//! With `ORCHESTRATOR_INTEROP_INGESTER=python` the same tests run with dranspose's own ingester, to see that they judge
//! rightly. There some fail, for faults of that ingester that ours must not have; each such test says so.

#[path = "interop/series.rs"]
mod series;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
