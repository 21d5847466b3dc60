//! Protocols over ZeroMQ and their recognisers.

use crate::{
    protocol::{
        Machine, Recognise, albaem::Albaem, contrast::Contrast, eiger_legacy::EigerLegacy, eiger_v2::EigerV2,
        lecroy::Lecroy, pcap::Pcap, stins::Stins, xspress::Xspress,
    },
    zmtp::SocketType,
};

/// Creates the recogniser of one run.
pub type MakeRecogniser = fn() -> Box<dyn Recognise>;

/// A protocol over ZeroMQ.
pub(crate) struct ZmqProtocol {
    /// Short name, and the class name of the original if it has the protocol.
    pub(crate) names: &'static [&'static str],
    pub(crate) socket: SocketType,
    pub(crate) recogniser: MakeRecogniser,
}

impl ZmqProtocol {
    /// Protocol with this short name or class name of the original.
    pub(crate) fn named(name: &str) -> Option<Self> {
        ZMQ.into_iter().find(|protocol| protocol.names.contains(&name))
    }

    /// Short names of all protocols.
    pub(crate) fn short_names() -> impl Iterator<Item = &'static str> {
        ZMQ.into_iter().map(|protocol| protocol.names[0])
    }
}

/// Order in which the protocol of a raw capture is detected: protocols with more required fields
/// come first.
pub(super) const ZMQ: [ZmqProtocol; 8] = [
    ZmqProtocol {
        names: &["stins", "ZmqPullSingleIngester"],
        socket: SocketType::Pull,
        recogniser: || Box::new(Machine::new(Stins::default())),
    },
    ZmqProtocol {
        names: &["eiger_legacy", "ZmqPullEigerLegacyIngester"],
        socket: SocketType::Pull,
        recogniser: || Box::new(Machine::new(EigerLegacy)),
    },
    ZmqProtocol {
        names: &["eiger_v2"],
        socket: SocketType::Pull,
        recogniser: || Box::new(EigerV2::default()),
    },
    ZmqProtocol {
        names: &["pcap", "ZmqSubPCAPIngester"],
        socket: SocketType::Sub,
        recogniser: || Box::new(Pcap::default()),
    },
    ZmqProtocol {
        names: &["albaem", "ZmqSubAlbaemIngester"],
        socket: SocketType::Sub,
        recogniser: || Box::new(Machine::new(Albaem)),
    },
    ZmqProtocol {
        names: &["xspress", "ZmqSubXspressIngester"],
        socket: SocketType::Sub,
        recogniser: || Box::new(Xspress::default()),
    },
    ZmqProtocol {
        names: &["contrast", "ZmqSubContrastIngester"],
        socket: SocketType::Sub,
        recogniser: || Box::new(Machine::new(Contrast)),
    },
    ZmqProtocol {
        names: &["lecroy", "ZmqSubLecroyIngester"],
        socket: SocketType::Sub,
        recogniser: || Box::new(Lecroy::default()),
    },
];

/// Recognisers of all protocols of raw captures.
pub(super) fn all_recognisers() -> Vec<Box<dyn Recognise>> {
    ZMQ.iter().map(|protocol| (protocol.recogniser)()).collect()
}
