//! The catalog subsystem: condition-action agents on an ERMrest catalog.
//!
//! It takes the place of agents that are built on the Python library deriva: the same requests, the same claims, the same
//! notices. `README.md` beside this crate is its contract in short.

pub mod agent;
mod config;
pub mod edge;
pub mod hand;
pub mod handler_config;
pub mod handling;
pub mod lane;
pub mod path;
pub mod polling;
pub mod rule;
pub mod service;
pub mod state_change;
pub mod status;
pub mod template;
pub mod wall;
