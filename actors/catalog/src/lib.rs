//! The catalog subsystem: condition-action agents on an ERMrest catalog.
//!
//! It takes the place of agents that are built on the Python library deriva: the same requests, the same claims, the same
//! notices. `README.md` beside this crate is its contract in short.

pub mod answer;
pub mod edge;
pub mod ending;
mod handler_config;
pub mod handling;
pub mod service;

pub use handler_config::{Actors, HandlerConfig, HandlerKind};
