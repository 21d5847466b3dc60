//! Tests of the storage: contract by cases, cost, and random sequences against a model.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod storage_contract;
mod storage_cost;
mod storage_model;
mod store;
