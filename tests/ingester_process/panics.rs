//! Panics and freezes of an ingester's children: no scan receives events of another one, and a freeze loses
//! none.

pub(crate) mod drill;
mod worker;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    thread,
};

use orchestrator_harness::{Controller, IngesterEnv, ZmtpPeer, eventually};
use serde_json::{Value, json};

use crate::detector::Detector;
use drill::{Drill, OURS, mapping};

/// The children in the order of their start; the empty path is their supervisor.
pub(crate) const CHILDREN: [&str; 14] = [
    "",
    "/spill",
    "/dump",
    "/redis",
    "/egress",
    "/ingester",
    "/accept",
    "/source_0",
    "/scan",
    "/scan/work",
    "/scan/assign",
    "/scan/stream_0",
    "/scan/stream_1",
    "/log",
];
const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");

/// A frozen child blocks the other children on its arbiter. None is restarted.
#[test]
fn a_frozen_child_is_shown_and_no_scan_loses_events() {
    // Drills mostly wait, so several run at once.
    for some in CHILDREN.chunks(7) {
        thread::scope(|scope| {
            for child in some {
                scope.spawn(move || {
                    let mut drill = Drill::new();
                    drill.freezes_in_the_middle(&format!("{OURS}{child}"));
                    drill.whole();
                    assert_eq!(drill.broken(), 0);
                    drill.check_events(child);
                });
            }
        });
    }
}

/// A slow worker has parts of an interrupted scan in its socket. The next scan must not follow on that
/// connection, because
///
/// the worker could not distinguish the two.
#[test]
fn the_next_scan_uses_a_new_worker_connection() {
    let detector = Detector::new();
    let env = IngesterEnv::new(BINARY, &detector.url(), "");
    let _instance = env.start();
    let controller = env.controller();
    let dial = || ZmtpPeer::connect(env.port, "DEALER", "w").expect("it listens");
    let mut worker = dial();
    let scan = |number: u64, workers: &[&str]| {
        controller.start_mapping(&mapping(number), &["eiger"]);
        controller.assign_events(&mapping(number), &[(0, json!({ "eiger": workers }))]);
        eventually("the detector is connected", || {
            env.base.link("ingester/eiger-ingester/scan/stream_0").state == "up"
        });
        detector.start(number);
    };
    scan(1, &[]);
    controller.publish_update(&Controller::update_json(&mapping(1), &[], true));
    eventually("the end is answered", || controller.is_finished(&mapping(1)));
    // The start of the second scan is in the worker's socket.
    scan(2, &["w"]);
    eventually("it has left", || env.metric("egress", "worker_events") == 1);
    env.base.inject_panic("ingester/eiger-ingester/scan/work");
    eventually("the scan is cut short", || env.metric("scan/work", "interrupted_scans") == 1);
    scan(3, &["w"]);
    // The connection closes, with or without delivering that start.
    while let Ok(parts) = worker.receive() {
        let start: Value = serde_json::from_slice(&parts[1]).expect("JSON");
        assert_eq!(start["scan"], 2, "the next scan came over the same connection");
    }
    let start: Value = serde_json::from_slice(&dial().receive().expect("the start")[1]).expect("JSON");
    assert_eq!(start["scan"], 3);
}

/// The ingester reads the end of one mapping and the next one together, and panics while it starts the
/// second.
///
/// After the restart it reads both again, and the first must stay finished.
#[test]
fn replayed_updates_do_not_restore_a_finished_mapping() {
    let detector = Detector::new();
    // A class whose process never answers delays the start of its mapping by seconds.
    let directory = tempfile::tempdir().expect("a directory");
    let python = directory.path().join("python");
    fs::write(&python, "#!/bin/sh\nexec sleep 600\n").expect("a script");
    fs::set_permissions(&python, Permissions::from_mode(0o755)).expect("a script that can run");
    let absent =
        format!("python = {python:?}\n[[ingester.stream]]\nname = \"absent\"\nsource = \"module:Class\"");
    let env = IngesterEnv::new(BINARY, &detector.url(), &absent);
    let _instance = env.start();
    let controller = env.controller();
    controller.start_mapping(&mapping(1), &["eiger"]);
    let entry = |update: Value| update.to_string();
    let updates = [
        entry(Controller::update_json(&mapping(1), &[], true)),
        entry(Controller::update_json(&mapping(2), &["eiger", "absent"], false)),
    ];
    let add = |update| ["XADD", "dranspose:controller:updates", "*", "data", update];
    env.redis.transaction(&[&add(&updates[0]), &add(&updates[1])]);
    let trying = || env.base.node("ingester/eiger-ingester/scan/stream_0")["link"]["state"] != "idle";
    eventually("the second begins", trying);
    env.base.inject_panic("ingester/eiger-ingester/ingester");
    eventually("the ingester runs again", || {
        env.base.snapshot().is_some_and(|tree| {
            tree.runs() && tree.node("ingester/eiger-ingester/ingester")["incarnation"] == 2
        })
    });
    // A later update is handled after the replayed ones.
    controller.publish_update(&Controller::update_json(&mapping(2), &[], true));
    eventually("the end is answered", || controller.is_finished(&mapping(2)));
    eventually("it is still the second that is followed", || controller.is_active(&mapping(2)));
    let answers = env.redis.entries(&format!("dranspose:ready:{}", mapping(1)));
    assert_eq!(answers.len(), 2, "they were handed over again");
}
