//! Hostile input of an ingester: invalid entries and keys in Redis, invalid dumps and bodies, full disks,
//! clock jumps. The ingester continues and reports the error.

mod clock;
mod disk;
mod dump;
mod http;
mod redis;

use orchestrator_harness::{IngesterEnv, ZmtpPeer, eventually, http};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
/// Address without a listener.
const NOWHERE: &str = "tcp://127.0.0.1:1";

/// Uuid of a mapping.
fn mapping(number: u64) -> String {
    format!("6277a4d0-975c-4dfe-97be-{number:012x}")
}

/// Note of a child of `eiger-ingester`.
fn note(env: &IngesterEnv, child: &str) -> String {
    let node = env.base.snapshot().map(|tree| tree.node(&format!("ingester/eiger-ingester/{child}")).clone());
    let text = node.as_ref().and_then(|node| node.pointer("/note/text").and_then(Value::as_str));
    text.unwrap_or_default().to_owned()
}

/// A worker's name is escaped where people read it, and unchanged in Redis.
#[test]
fn worker_names_are_escaped_for_people() {
    let env = IngesterEnv::new(BINARY, NOWHERE, "");
    let _instance = env.start();
    let name = "w\u{1b}[2J\n\u{202e}\u{9b}";
    let mut worker = ZmtpPeer::connect(env.port, "DEALER", name).expect("it listens");
    worker.send(&[&[7, 7, 7, 7, 7, 7, 0x47, 7, 0x87, 7, 7, 7, 7, 7, 7, 7]]).expect("it is taken");
    let listed = || {
        let state = env.controller().ingester_state()?;
        let workers = state["connected_workers"].as_object()?;
        workers.values().next().map(|worker| worker["name"].clone())
    };
    eventually("it is in the key as it is", || listed().is_some_and(|listed| listed == name));
    let socket = env.base.admin_socket();
    let get = |path: &str| http(&socket, "GET", path, &["Accept: application/json"], "").body;
    let escaped = "w\\u{1b}[2J\\n\\u{202e}\\u{9b}";
    eventually("it has metrics", || get("/v1/tree").contains(&escaped.replace('\\', "\\\\")));
    let json = ["Content-Type: application/json"];
    let status =
        http(&socket, "POST", "/v1/consoles/ingester/eiger-ingester/ingester/status", &json, "{}").json();
    assert_eq!(status["workers"][0]["worker"], escaped, "{status}");
    for text in [get("/v1/tree"), get("/metrics"), status.to_string(), env.base.log()] {
        let raw = |c: char| matches!(c, '\u{1b}' | '\u{202e}' | '\u{9b}');
        assert!(!text.contains(raw) && !text.contains("\\u001b"), "{text}");
    }
    // The log names the worker by its address.
    drop(worker);
    eventually("its end is logged", || {
        env.base
            .log()
            .lines()
            .any(|line| line.contains("worker connection ended") && line.contains("127.0.0.1:"))
    });
}
