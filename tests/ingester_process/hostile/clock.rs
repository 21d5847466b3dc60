//! Jumps of the wall clock (libfaketime) do not affect timeouts and expiry.

use std::{fs, path::PathBuf};

use orchestrator_harness::{IngesterEnv, Instance, ZmtpPeer, eventually, wait_for};
use serde_json::Value;

use super::{BINARY, NOWHERE, mapping};

/// Path of the library, which is in a directory per architecture.
fn library() -> PathBuf {
    let directories = fs::read_dir("/usr/lib").expect("/usr/lib").map_while(Result::ok);
    let mut found = directories.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|path| path.exists()).expect("libfaketimeMT.so.1 is missing: install faketime")
}

/// Workers that the ingester publishes.
fn listed(env: &IngesterEnv) -> Vec<Value> {
    let state = env.controller().ingester_state().expect("the ingester's key");
    state["connected_workers"].as_object().expect("workers").values().cloned().collect()
}

#[test]
fn a_clock_jump_neither_drops_nor_keeps_a_worker() {
    let env = IngesterEnv::new(BINARY, NOWHERE, "");
    let offset = env.base.path().join("offset");
    let jump = |to: &str| {
        let new = offset.with_extension("new");
        fs::write(&new, to).expect("it is written");
        fs::rename(new, &offset).expect("it is replaced at once");
    };
    jump("+0");
    let mut command = env.base.bare_command();
    command.args(["run", "--config"]).arg(env.base.path().join("ingester.toml"));
    command
        .env("LD_PRELOAD", library())
        .env("FAKETIME_TIMESTAMP_FILE", &offset)
        .env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    let _instance = Instance::spawn(command);
    wait_for("the ingester is in Redis", || env.controller().ingester_state());
    let mut worker = ZmtpPeer::connect(env.port, "DEALER", "w").expect("it listens");
    let uuid = [7, 7, 7, 7, 7, 7, 0x47, 7, 0x87, 7, 7, 7, 7, 7, 7, 7];
    worker.send(&[&uuid]).expect("it is taken");
    let seen = |worker: &Value| worker["last_seen"].as_f64().expect("seconds");
    let first = seen(&wait_for("the worker is listed", || listed(&env).pop()));

    // One day ahead: the worker's `last_seen` changes, and the key does not expire.
    jump("+1d");
    let ahead = wait_for("the clock is a day ahead", || {
        worker.send(&[&uuid]).expect("it is taken");
        listed(&env).pop().map(|worker| seen(&worker)).filter(|seen| *seen > first + 80_000.0)
    });
    env.controller().start_mapping(&mapping(1), &["eiger"]);
    // Two days back: a silent worker is dropped after 4 s, not after two days.
    jump("-1d");
    wait_for("the clock is two days back", || {
        worker.send(&[&uuid]).expect("it is taken");
        listed(&env).pop().map(|worker| seen(&worker)).filter(|seen| *seen < ahead - 160_000.0)
    });
    jump("-3d");
    drop(worker);
    eventually("the worker is forgotten", || listed(&env).is_empty());
    // The key still expires 10 s after its last renewal.
    env.controller().start_mapping(&mapping(2), &["eiger"]);
    let left = env.redis.command(&["TTL", "dranspose:ingester:eiger-ingester:config"]);
    assert!((1..=10).contains(&left.as_i64().expect("seconds")), "{left}");
}
