//! Source protocols as rules without I/O (CONTRACT IP10 to IP37): classification of messages into starts,
//! items and ends of a series. Each file classifies one protocol; most share [`Machine`].
//!
//! Comments cite the rules of the ingester's `CONTRACT.md` by number.

pub mod albaem;
pub mod cbors;
mod compact;
pub mod contrast;
mod datetime;
pub mod eiger_legacy;
pub mod eiger_v2;
pub mod gaps;
mod htype;
pub mod item;
mod json;
mod lax;
pub mod lecroy;
pub mod machine;
pub mod numbered;
pub mod pandabox;
pub mod pcap;
mod pickle;
pub mod sardana;
pub mod stins;
mod template;
#[cfg(test)]
mod vectors;
pub mod xspress;

pub use machine::{Classify, Kind, Machine, Outcome, Recognise};
