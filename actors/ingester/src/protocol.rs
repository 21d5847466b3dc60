//! Source protocols as pure rules (CONTRACT IP10 to IP37): classification of messages into starts,
//! items and ends of a series. Each file classifies one protocol; most share [`Machine`].

pub mod albaem;
pub mod cbors;
mod compact;
pub mod contrast;
mod datetime;
pub mod eiger_legacy;
pub mod eiger_v2;
pub mod gaps;
mod htype;
mod json;
mod lax;
pub mod lecroy;
pub mod machine;
pub mod numbered;
pub mod pandabox;
pub mod pcap;
pub mod pickle;
pub mod sardana;
pub mod stins;
mod template;
pub mod xspress;

pub use machine::{Classify, Kind, Machine, Outcome, Recognise};
