//! The source `eiger_v2` of the real binary, with messages by cbor2 over libzmq.

use std::path::PathBuf;

use orchestrator_harness::{
    Controller, IngesterEnv, TestEnv,
    dranspose::{Source, run_program},
    eventually,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";

/// Messages of a case of `captures.py`.
fn capture(directory: &TempDir, case: &str) -> PathBuf {
    let file = directory.path().join(case);
    run_program("captures.py", &[case, &file.display().to_string()]);
    file
}

/// Images 3 and 4 are missing, and ten messages are hostile. The frames after them keep their events with
/// `align`.
#[test]
fn gaps_and_hostile_messages_are_counted() {
    let (mut source, directory) = (Source::push(), tempfile::tempdir().expect("a directory"));
    let dump = directory.path().join("dump.cbors");
    let keys = format!("on_gap = \"align\"\ndump_path = \"{}\"", dump.display());
    let env = IngesterEnv::with_source(TestEnv::new(BINARY), "eiger_v2", &source.url(), &keys);
    let instance = env.start();
    let controller = env.controller();
    controller.start_mapping(MAPPING, &["eiger"]);
    // A start, images 0 to 6, and an end.
    let assigned: Vec<(u64, Value)> = (0..9).map(|event| (event, json!({ "eiger": [] }))).collect();
    controller.assign_events(MAPPING, &assigned);
    let sent = source.play(&capture(&directory, "eiger_v2_damaged"));
    let metric = |name: &str| env.metric("scan/stream_0", name);
    eventually("all items to arrive", || metric("items") == 7);
    let counts =
        ["invalid_messages", "outside_scans", "gaps", "missing_frames", "backward_frames"].map(metric);
    assert_eq!(counts, [10, 1, 1, 2, 0]);
    eventually("all events to be sent", || env.metric("scan/work", "events") == 9);
    assert_eq!(env.metric("scan/work", "events_without_frame"), 2);
    controller.publish_update(&Controller::update_json(MAPPING, &[], true));
    eventually("the end to be answered", || controller.is_finished(MAPPING));
    assert!(instance.terminate().success());
    let read: Value =
        serde_json::from_str(&run_program("dumped.py", &[&dump.display().to_string()])).expect("JSON");
    let events = read[0].as_array().expect("events");
    let parts: Vec<&Value> = events.iter().map(|event| &event["streams"]["eiger"]["parts"]).collect();
    let valid = [&sent[0], &sent[2], &sent[3]].into_iter().chain(&sent[14..]);
    let dumped: Vec<&Value> = parts.iter().copied().filter(|parts| **parts != json!([])).collect();
    assert_eq!(dumped, valid.collect::<Vec<_>>(), "byte for byte");
    assert_eq!((parts[4], parts[5]), (&json!([]), &json!([])), "events of the missing images");
}
