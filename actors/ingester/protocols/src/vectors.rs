//! First parts of about two thousand messages, classified as by the original's models.

use std::{env, fs, path::PathBuf};

use bytes::Bytes;

use crate::{
    Classify, Kind,
    albaem::Albaem,
    contrast::Contrast,
    eiger_legacy::EigerLegacy,
    lecroy::{self, MessageKind},
    pcap,
    stins::Stins,
    xspress,
};

fn ours(protocol: &str, part: Bytes) -> Option<&'static str> {
    let parts = [part];
    let kind = match protocol {
        "stins" => Stins::default().classify(&parts),
        "eiger_legacy" => EigerLegacy.classify(&parts),
        "albaem" => Albaem.classify(&parts),
        "contrast" => Contrast.classify(&parts),
        "xspress" => xspress::classify(&parts),
        "pcap" => pcap::classify(&parts),
        "lecroy" => {
            return lecroy::classify(&parts).map(|what| match what {
                MessageKind::Prepare => "LecroyPrepare",
                MessageKind::SequenceStart { .. } => "LecroySeqStart",
                MessageKind::SequenceEnd => "LecroySeqEnd",
                MessageKind::Stop => "LecroyEnd",
                MessageKind::Traces => "LecroyData",
            });
        }
        other => panic!("no classifier for {other}"),
    };
    let index = match kind {
        Kind::Start => 0,
        Kind::Data(_) => 1,
        Kind::End => 2,
        Kind::Nothing => 3,
        Kind::Invalid(_) => return None,
    };
    Some(
        match protocol {
            "stins" => ["Stream1Start", "Stream1Data", "Stream1End", ""],
            "eiger_legacy" => ["EigerLegacyHeader", "EigerLegacyImage", "EigerLegacyEnd", ""],
            "albaem" => ["AlbaemStart", "AlbaemData", "AlbaemEnd", ""],
            "contrast" => ["ContrastStarted", "ContrastRunning", "ContrastFinished", "ContrastHeartbeat"],
            "xspress" => ["XspressStart", "XspressImage", "XspressEnd", ""],
            _ => ["PCAPStart", "PCAPData", "PCAPEnd", ""],
        }[index],
    )
}

#[test]
fn messages_are_classified_as_by_the_original() {
    let kept = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    let folder = env::var_os("ORCHESTRATOR_GOLDEN").map_or_else(kept, PathBuf::from);
    let text = fs::read_to_string(folder.join("vectors.json")).expect("vectors");
    let vectors: Vec<(String, String, Option<String>)> = serde_json::from_str(&text).expect("JSON");
    assert!(vectors.len() > 1000, "only {} vectors", vectors.len());
    let mut different = Vec::new();
    for (protocol, hex, theirs) in vectors {
        let part: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
            .collect();
        let part = Bytes::from(part);
        let taken = ours(&protocol, part.clone());
        if taken != theirs.as_deref() {
            different.push(format!("{protocol} {}: ours {taken:?}, theirs {theirs:?}", part.escape_ascii()));
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
