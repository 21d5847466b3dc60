//! Protocols over ZeroMQ and their recognisers.

use crate::{
    protocol::{
        Machine, Recognise, albaem::Albaem, contrast::Contrast, eiger_legacy::EigerLegacy, lecroy::Lecroy,
        pcap::Pcap, stins::Stins, xspress::Xspress,
    },
    zmtp::SocketType,
};

/// Creates the recogniser of one run.
pub type MakeRecogniser = fn() -> Box<dyn Recognise>;

/// A protocol over ZeroMQ.
pub(super) struct ZmqProtocol {
    /// Short name, and the original's class name.
    pub(super) names: [&'static str; 2],
    pub(super) socket: SocketType,
    pub(super) recogniser: MakeRecogniser,
}

/// Order in which the protocol of a raw capture is detected: protocols with more required fields
/// come first.
pub(super) const ZMQ: [ZmqProtocol; 7] = [
    ZmqProtocol {
        names: ["stins", "ZmqPullSingleIngester"],
        socket: SocketType::Pull,
        recogniser: || Box::new(Machine::new(Stins::default())),
    },
    ZmqProtocol {
        names: ["eiger_legacy", "ZmqPullEigerLegacyIngester"],
        socket: SocketType::Pull,
        recogniser: || Box::new(Machine::new(EigerLegacy)),
    },
    ZmqProtocol {
        names: ["pcap", "ZmqSubPCAPIngester"],
        socket: SocketType::Sub,
        recogniser: || Box::new(Pcap::default()),
    },
    ZmqProtocol {
        names: ["albaem", "ZmqSubAlbaemIngester"],
        socket: SocketType::Sub,
        recogniser: || Box::new(Machine::new(Albaem)),
    },
    ZmqProtocol {
        names: ["xspress", "ZmqSubXspressIngester"],
        socket: SocketType::Sub,
        recogniser: || Box::new(Xspress::default()),
    },
    ZmqProtocol {
        names: ["contrast", "ZmqSubContrastIngester"],
        socket: SocketType::Sub,
        recogniser: || Box::new(Machine::new(Contrast)),
    },
    ZmqProtocol {
        names: ["lecroy", "ZmqSubLecroyIngester"],
        socket: SocketType::Sub,
        recogniser: || Box::new(Lecroy::default()),
    },
];

/// Recognisers of all protocols of raw captures.
pub(super) fn all_recognisers() -> Vec<Box<dyn Recognise>> {
    ZMQ.iter().map(|protocol| (protocol.recogniser)()).collect()
}
