//! The source protocols as pure rules (CONTRACT IP10 to IP27): which message starts a series, is an item, ends it, or is none.
//! Each file classifies; the machine is written once. Sources feed what they receive.

pub mod albaem;
pub mod cbors;
mod compact;
pub mod contrast;
mod datetime;
pub mod eiger_legacy;
pub mod gaps;
mod htype;
mod json;
mod lax;
pub mod lecroy;
pub mod machine;
pub mod pandabox;
pub mod pcap;
pub mod pickle;
pub mod sardana;
pub mod stins;
mod template;
pub mod xspress;

pub use machine::{Classify, Kind, Machine, Recognise, Verdict};
