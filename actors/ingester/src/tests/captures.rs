//! Golden captures: messages of a source, and the original's items of them.

use std::{fs, path::PathBuf};

use bytes::Bytes;
use orchestrator_ingester_protocols::{
    Recognise,
    cbors::{Entry, Event, Reader},
};

use crate::{edge::sources::ZmqProtocol, item::Item};

/// Path of a capture in this repository, or in the directory `ORCHESTRATOR_GOLDEN`
/// (`golden/at_random.py`).
pub(crate) fn path(name: &str) -> PathBuf {
    let kept = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::env::var_os("ORCHESTRATOR_GOLDEN").map_or_else(kept, PathBuf::from).join(name)
}

fn entries(name: &str) -> Vec<Entry> {
    let mut reader = Reader::new(fs::File::open(path(name)).expect("a golden file"));
    std::iter::from_fn(|| reader.read().expect("a whole file")).collect()
}

/// Messages of a capture.
pub(crate) fn messages(case: &str) -> Vec<Vec<Bytes>> {
    entries(&format!("{case}.cbor"))
        .into_iter()
        .map(|entry| match entry {
            Entry::Message(parts) => parts.into_vec(),
            Entry::Event(event) => panic!("{case} has event {}", event.number),
        })
        .collect()
}

pub(crate) fn events(case: &str) -> Vec<Event> {
    entries(&format!("{case}.cbors"))
        .into_iter()
        .map(|entry| match entry {
            Entry::Event(event) => event,
            Entry::Message(parts) => panic!("{case} has a message of {} parts", parts.len()),
        })
        .collect()
}

/// Recogniser of the protocol that a case's name begins with.
pub(crate) fn recogniser(case: &str) -> Box<dyn Recognise> {
    let (name, _) = case.split_once('-').expect("protocol-case");
    let protocol = ZmqProtocol::named(name).unwrap_or_else(|| panic!("no recogniser for {name}"));
    (protocol.recogniser)()
}

pub(crate) const ZMQ_CASES: &[&str] = &[
    "stins-plain",
    "stins-odd",
    "eiger_legacy-plain",
    "eiger_legacy-odd",
    "xspress-plain",
    "xspress-old",
    "xspress-odd",
    "albaem-plain",
    "albaem-odd",
    "pcap-plain",
    "pcap-odd",
    "pcap-floats",
    "contrast-plain",
    "contrast-odd",
    "lecroy-continuous",
    "lecroy-sequential",
    "lecroy-odd",
    "lecroy-odd_sequential",
];

/// Compares `items` with those of the original.
pub(crate) fn compare(case: &str, items: impl IntoIterator<Item = Item>) {
    let shown = |typ: &str, frames: &[Bytes]| {
        let frames: Vec<String> = frames.iter().map(|frame| frame.escape_ascii().to_string()).collect();
        format!("{typ} {frames:#?}")
    };
    let ours: Vec<String> = items.into_iter().map(|item| shown(&item.typ, &item.frames)).collect();
    let theirs: Vec<String> =
        events(case).iter().map(|event| shown(&event.streams[0].typ, &event.streams[0].frames)).collect();
    for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "{case}: item {number}");
    }
    assert_eq!(ours.len(), theirs.len(), "{case}: ours are {ours:#?}");
}
