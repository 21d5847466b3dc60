//! Source protocols as pure rules (CONTRACT IP10 to IP37): classification of messages into starts,
//! items and ends of a series. Each file classifies one protocol; most share [`Machine`].

pub(crate) mod albaem;
pub(crate) mod cbors;
mod compact;
pub(crate) mod contrast;
mod datetime;
pub(crate) mod eiger_legacy;
pub(crate) mod eiger_v2;
pub(crate) mod gaps;
mod htype;
mod json;
mod lax;
pub(crate) mod lecroy;
pub(crate) mod machine;
pub(crate) mod numbered;
pub(crate) mod pandabox;
pub(crate) mod pcap;
pub(crate) mod pickle;
pub(crate) mod sardana;
pub(crate) mod stins;
mod template;
pub(crate) mod xspress;

pub(crate) use machine::{Classify, Kind, Machine, Outcome, Recognise};
