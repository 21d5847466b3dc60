//! The ingester subsystem: takes frames from detectors and hands each to the workers that its event is assigned to.
//!
//! It takes the place of dranspose's Python ingesters: the same Redis keys, worker sockets, source protocols and dump files.

pub mod edge;
pub mod item;
pub mod protocol;
pub mod source;
pub mod zmtp;
