//! The parts of the queue: file reader, worker socket, storage.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod file_reader;
mod socket_worker;
mod storage_contract;
mod storage_cost;
mod storage_model;
