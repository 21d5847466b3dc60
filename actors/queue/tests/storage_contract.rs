//! The storage's contract, case by case: the queue operations, upgrades, foreign files and foreign writers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

#[path = "storage_contract/bench.rs"]
mod bench;
#[path = "storage_contract/deletion.rs"]
mod deletion;
#[path = "storage_contract/files.rs"]
mod files;
#[path = "storage_contract/foreign.rs"]
mod foreign;
#[path = "storage_contract/handouts.rs"]
mod handouts;
#[path = "storage_contract/operations.rs"]
mod operations;
#[path = "storage_contract/operators.rs"]
mod operators;
