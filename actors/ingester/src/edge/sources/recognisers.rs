//! Protocols over ZeroMQ and their recognisers.

use orchestrator_ingester_protocols::{
    Machine, Recognise,
    albaem::Albaem,
    contrast::Contrast,
    eiger_legacy::EigerLegacy,
    eiger_v2::EigerV2,
    lecroy::Lecroy,
    numbered::{EigerLegacyNumbers, Numbered, StinsNumbers},
    pcap::Pcap,
    stins::Stins,
    xspress::Xspress,
};
use orchestrator_ingester_zmtp::SocketType;

/// Creates the recogniser of one run.
pub(crate) type MakeRecogniser = fn() -> Box<dyn Recognise>;

/// A protocol over ZeroMQ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ZmqProtocol {
    /// Short name, and the class name of the original if it has the protocol.
    pub(crate) names: &'static [&'static str],
    pub(crate) socket: SocketType,
    pub(crate) recogniser: MakeRecogniser,
    /// Numbers of its items are those of their events.
    pub(crate) numbers_events: bool,
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

/// A protocol whose frames are numbered in their series.
const fn by_series(
    names: &'static [&'static str],
    socket: SocketType,
    recogniser: MakeRecogniser,
) -> ZmqProtocol {
    ZmqProtocol { names, socket, recogniser, numbers_events: false }
}

/// A protocol of several ingesters behind one PUSH socket.
const fn by_event(names: &'static [&'static str], recogniser: MakeRecogniser) -> ZmqProtocol {
    ZmqProtocol { names, socket: SocketType::Pull, recogniser, numbers_events: true }
}

/// Order in which the protocol of a raw capture is detected: protocols with more required fields
/// come first.
pub(super) const ZMQ: [ZmqProtocol; 10] = [
    by_series(&["stins", "ZmqPullSingleIngester"], SocketType::Pull, || {
        Box::new(Machine::new(Stins::default()))
    }),
    by_series(&["eiger_legacy", "ZmqPullEigerLegacyIngester"], SocketType::Pull, || {
        Box::new(Machine::new(EigerLegacy))
    }),
    by_series(&["eiger_v2"], SocketType::Pull, || Box::new(EigerV2::default())),
    by_event(&["stins_parallel", "StinsParallelIngester"], || Box::new(Numbered::<StinsNumbers>::default())),
    by_event(&["eiger_legacy_parallel", "Stream1ParallelIngester"], || {
        Box::new(Numbered::<EigerLegacyNumbers>::default())
    }),
    by_series(&["pcap", "ZmqSubPCAPIngester"], SocketType::Sub, || Box::new(Pcap::default())),
    by_series(&["albaem", "ZmqSubAlbaemIngester"], SocketType::Sub, || Box::new(Machine::new(Albaem))),
    by_series(&["xspress", "ZmqSubXspressIngester"], SocketType::Sub, || Box::new(Xspress::default())),
    by_series(&["contrast", "ZmqSubContrastIngester"], SocketType::Sub, || Box::new(Machine::new(Contrast))),
    by_series(&["lecroy", "ZmqSubLecroyIngester"], SocketType::Sub, || Box::new(Lecroy::default())),
];

/// Recognisers of all protocols of raw captures.
pub(super) fn all_recognisers() -> Vec<Box<dyn Recognise>> {
    let whole = ZMQ.iter().filter(|protocol| !protocol.numbers_events);
    whole.map(|protocol| (protocol.recogniser)()).collect()
}
