//! Dumps on a full or read-only disk: scans continue, and the file ends with a whole event.

use std::{
    fs::{self, File},
    process::Command,
};

use orchestrator_harness::{Controller, IngesterEnv, SmallDisk, ZmtpPeer, eventually};
use serde_json::{Value, json};

use super::{BINARY, mapping, note};
use crate::detector::{Detector, May};

const FRAMES: u64 = 300;

/// Events in the format of an assignment entry.
fn events_of(workers: impl Iterator<Item = (u64, Value)>) -> Vec<Value> {
    workers
        .map(|(event, workers)| json!({"event_number": event, "assignments": {"eiger": workers}}))
        .collect()
}

/// Runs a scan of [`FRAMES`] images and checks that the one worker receives all of them.
fn carry(env: &IngesterEnv, detector: &Detector, worker: &mut ZmtpPeer, scan: u64) {
    let controller = env.controller();
    controller.start_mapping(&mapping(scan), &["eiger"]);
    let events: Vec<(u64, Value)> = (0..FRAMES + 2).map(|event| (event, json!({"eiger": ["w"]}))).collect();
    controller.assign_events(&mapping(scan), &events);
    eventually("the detector is connected", || {
        env.base.link("ingester/eiger-ingester/scan/stream_0").state == "up"
    });
    detector.start(scan);
    assert_eq!(detector.images(scan, 0..FRAMES, |_| May::Go), FRAMES);
    detector.end(scan);
    for event in 0..FRAMES + 2 {
        let parts = worker.receive().expect("the next event");
        let header: Value = serde_json::from_slice(&parts[0]).expect("a header");
        assert_eq!(header["event_number"], event);
    }
    controller.publish_update(&Controller::update_json(&mapping(scan), &[], true));
    eventually("the end is answered", || controller.is_finished(&mapping(scan)));
}

#[test]
fn a_dump_on_a_full_or_read_only_disk_ends_with_a_whole_event() {
    SmallDisk::with(8, "hostile::disk::a_dump_on_a_full_or_read_only_disk_ends_with_a_whole_event", |disk| {
        let detector = Detector::new();
        let dump = disk.path().join("scan.cbors");
        let env = IngesterEnv::new(BINARY, &detector.url(), &format!("dump_path = {dump:?}"));
        // A second ingester replays the file.
        let player = format!(
            "[[ingester]]\nname = \"player\"\nlisten = \"127.0.0.1:{}\"\nredis_url = \"{}\"\n\
             [[ingester.stream]]\nname = \"eiger\"\nsource = \"replay\"\nfile = {dump:?}\n",
            orchestrator_harness::free_port(),
            // Another Redis database, to separate its mappings.
            env.redis.url().replace("/0", "/1")
        );
        let config = env.base.path().join("ingester.toml");
        let text = fs::read_to_string(&config).expect("a configuration") + &player;
        fs::write(&config, text).expect("it is written");
        let _instance = env.start();
        let mut worker = ZmtpPeer::connect(env.port, "DEALER", "w").expect("it listens");
        carry(&env, &detector, &mut worker, 1);
        let whole = fs::metadata(&dump).expect("the dump").len();
        let events = FRAMES as i64 + 2;

        // Leaves room for part of one write.
        disk.fill();
        let filler = File::options().write(true).open(disk.path().join("filler")).expect("what fills it");
        filler.set_len(filler.metadata().expect("its length").len() - (300 << 10)).expect("it shrinks");
        drop(filler);
        carry(&env, &detector, &mut worker, 2);
        assert!(note(&env, "dump").contains("No space left on device"), "{}", note(&env, "dump"));
        assert_eq!(env.metric("dump", "dump_errors"), 1);
        let cause = env.base.first_cause("ingester", "No space left on device");
        assert_eq!(cause.path, "ingester/eiger-ingester/dump");
        let free = format!(" bytes are free on the file system of {}", dump.display());
        assert!(cause.evidence[0].ends_with(&free) && cause.help.starts_with("df -h "), "{cause:?}");
        assert_eq!(fs::metadata(&dump).expect("the dump").len(), whole, "the dump has a partial event");

        let mount = |options: &str| {
            let done = Command::new("mount").args(["-o", options]).arg(disk.path()).status();
            assert!(done.expect("mount runs").success());
        };
        disk.free();
        mount("remount,ro");
        carry(&env, &detector, &mut worker, 3);
        assert!(note(&env, "dump").contains("Read-only file system"), "{}", note(&env, "dump"));
        mount("remount,rw");
        carry(&env, &detector, &mut worker, 4);
        assert!(!env.base.why("ingester").contains("No space left"), "the next dump has space");

        // The whole file can be replayed.
        let played = || {
            let (_, text, _) = env.base.cli(&["tree", "ingester/player/scan/stream_0", "--json"]);
            let tree: Value = serde_json::from_str(&text).unwrap_or_default();
            let metrics = tree["root"]["metrics"].as_array().into_iter().flatten();
            metrics
                .filter(|metric| metric["name"] == "items")
                .filter_map(|metric| metric["value"].as_i64())
                .sum::<i64>()
        };
        let entry = json!(events_of((0..2 * events as u64).map(|event| (event, json!([]))))).to_string();
        let update = Controller::update_json(&mapping(5), &["eiger"], false).to_string();
        let key = format!("dranspose:assigned:{}", mapping(5));
        env.redis.transaction(&[
            &["SELECT", "1"],
            &["XADD", &key, "*", "data", &entry],
            &["XADD", "dranspose:controller:updates", "*", "data", &update],
        ]);
        eventually("both scans are played", || played() == 2 * events);
    });
}
