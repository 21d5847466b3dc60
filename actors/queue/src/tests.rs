//! Tests of the storage: contract by cases, cost, random sequences against a model, and the answers of both
//! stores.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod attempts;
mod inspect;
mod migration;
mod shared_queue;
mod storage_contract;
mod storage_cost;
mod storage_model;
mod store;
