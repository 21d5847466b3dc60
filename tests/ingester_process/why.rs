//! `orchestrator why` for the ingester subsystem.

use std::{fs, net::TcpListener, thread};

use orchestrator_harness::{IngesterEnv, SmallDisk, ZmtpPeer, eventually};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
const FRAME: usize = 1 << 20;
const FRAMES: u64 = 40;

/// Sends a series of images as fast as they are taken, and keeps the connection open.
fn send_series(listener: &TcpListener) {
    let mut peer = ZmtpPeer::accept(listener, "PUSH").expect("the ingester connects");
    let mut send = |parts: &[&[u8]]| peer.send(parts).expect("the ingester takes it");
    send(&[br#"{"htype":"header","msg_number":0,"filename":""}"#]);
    for frame in 0..FRAMES {
        let head = format!(
            r#"{{"htype":"image","frame":{frame},"shape":[1024,1024],"type":"uint8","compression":"none","msg_number":{}}}"#,
            frame + 1
        );
        send(&[head.as_bytes(), &vec![7; FRAME]]);
    }
    let _ = peer.receive();
}

#[test]
fn an_ingester_without_a_mapping_names_the_key_and_redis() {
    let env = IngesterEnv::new(BINARY, "tcp://127.0.0.1:1", "");
    let _instance = env.start();
    let redis = env.redis.url();
    let address = redis.trim_start_matches("redis://").trim_end_matches("/0").to_owned();
    let cause = env.base.first_cause("ingester", &format!("no mapping in Redis at {address}"));
    assert_eq!(cause.path, "ingester/eiger-ingester/ingester");
    assert!(cause.text.contains(" (for "), "{cause:?}");
    assert!(
        cause.evidence[0].starts_with("no update in `dranspose:controller:updates` of Redis"),
        "{cause:?}"
    );
    let command = format!("redis-cli -u {redis} XREVRANGE dranspose:controller:updates + - COUNT 1");
    assert!(cause.help.starts_with("post a mapping") && cause.help.contains(&command), "{cause:?}");
    env.controller().start_mapping(MAPPING, &[]);
    let why = || env.base.why("ingester");
    eventually("no cause", || why().starts_with("ingester: nothing holds up work"));
}

#[test]
fn a_worker_that_reads_nothing_is_named_with_its_bytes() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = format!("tcp://{}", listener.local_addr().expect("its address"));
    let keys = "egress_bytes_per_peer = 8388608\nspill_bytes = 67108864";
    let env = IngesterEnv::new(BINARY, &upstream, keys);
    let instance = env.start();
    let controller = env.controller();
    controller.start_mapping(MAPPING, &["eiger"]);
    let events: Vec<_> = (0..=FRAMES).map(|event| (event, json!({ "eiger": ["slow"] }))).collect();
    controller.assign_events(MAPPING, &events);
    let sending = thread::spawn(move || send_series(&listener));
    // Nobody is there at first.
    let cause = env.base.first_cause("ingester", "worker slow is not connected: ");
    assert!(cause.help.ends_with("start worker slow and post a new mapping"), "{cause:?}");
    let mut slow = ZmtpPeer::connect(env.port, "DEALER", "slow").expect("the ingester listens");
    let cause = env.base.first_cause("ingester", "worker slow reads nothing: ");
    assert_eq!(cause.path, "ingester/eiger-ingester/egress");
    let numbers: Vec<u64> = cause.text.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] > 0 && numbers[1] > 0, "bytes in memory and on disk: {cause:?}");
    assert!(cause.evidence[0].starts_with("slow took its last byte "), "{cause:?}");
    let help = "orchestrator ingester status; restart worker slow and post a new mapping";
    assert_eq!(cause.help, help);
    for _ in 0..=FRAMES {
        slow.receive().expect("an event");
    }
    eventually("the last event", || env.base.why("ingester").contains("; last event "));
    drop(instance);
    sending.join().expect("the source ends");
}

#[test]
fn a_full_disk_of_spilled_messages_is_named_before_the_worker() {
    SmallDisk::with(4, "why::a_full_disk_of_spilled_messages_is_named_before_the_worker", |disk| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let upstream = format!("tcp://{}", listener.local_addr().expect("its address"));
        let env =
            IngesterEnv::new(BINARY, &upstream, "egress_bytes_per_peer = 8388608\nspill_bytes = 67108864");
        let file = env.base.path().join("ingester.toml");
        let (base, spill) = (env.base.path().display().to_string(), disk.path().display().to_string());
        let text = fs::read_to_string(&file).expect("the configuration");
        let text = text.replace(&format!("spill_dir = \"{base}\""), &format!("spill_dir = {spill:?}"));
        fs::write(&file, text).expect("write the configuration");
        let instance = env.start();
        let controller = env.controller();
        controller.start_mapping(MAPPING, &["eiger"]);
        let events: Vec<_> = (0..=FRAMES).map(|event| (event, json!({ "eiger": ["slow"] }))).collect();
        controller.assign_events(MAPPING, &events);
        let sending = thread::spawn(move || send_series(&listener));
        let cause = env.base.first_cause("ingester", &format!("cannot write spilled messages in {spill}"));
        assert_eq!(cause.path, "ingester/eiger-ingester/spill");
        let free = format!(" bytes are free on the file system of {spill}");
        assert!(cause.evidence[0].ends_with(&free) && cause.help.starts_with("df -h "), "{cause:?}");
        disk.grow(64);
        let mut slow = ZmtpPeer::connect(env.port, "DEALER", "slow").expect("the ingester listens");
        for _ in 0..=FRAMES {
            slow.receive().expect("an event");
        }
        eventually("no cause", || !env.base.why("ingester").contains(&spill));
        drop(instance);
        sending.join().expect("the source ends");
    });
}

#[test]
fn a_class_that_cannot_be_imported_names_the_key_and_the_module() {
    let env = IngesterEnv::with_class(BINARY, "nowhere_to_be_found:Source");
    let _instance = env.spawn();
    eventually("the endpoint", || env.base.snapshot().is_some());
    let cause = env.base.first_cause("ingester", "No module named 'nowhere_to_be_found'");
    assert_eq!(cause.path, "ingester/eiger-ingester/python_0");
    assert!(cause.text.contains("nowhere_to_be_found:Source cannot be imported by "), "{cause:?}");
    assert!(cause.text.contains("set ingester.python"), "{cause:?}");
}
