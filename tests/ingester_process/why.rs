//! `orchestrator why` for the ingester subsystem.

use std::{fs, net::TcpListener, path::Path, thread};

use orchestrator_harness::{IngesterEnv, SmallDisk, ZmtpPeer, eventually, wait_for};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
const FRAME: usize = 1 << 20;
const FRAMES: u64 = 40;
const HEADER: &[u8] = br#"{"htype":"header","msg_number":0,"filename":""}"#;

/// Sends a series of images as fast as they are taken, and keeps the connection open.
fn send_series(listener: &TcpListener) {
    let mut peer = ZmtpPeer::accept(listener, "PUSH").expect("the ingester connects");
    peer.send(&[HEADER]).expect("the ingester takes it");
    (0..FRAMES).for_each(|frame| send_image(&mut peer, frame, FRAME));
    let _ = peer.receive();
}

/// Sends an image of `len` bytes, which is that of event `frame` + 1.
fn send_image(source: &mut ZmtpPeer, frame: u64, len: usize) {
    let head = format!(
        r#"{{"htype":"image","frame":{frame},"shape":[{len}],"type":"uint8","compression":"none","msg_number":{}}}"#,
        frame + 1
    );
    source.send(&[head.as_bytes(), &vec![7; len]]).expect("the ingester takes it");
}

#[test]
fn an_ingester_without_a_mapping_names_the_key_and_redis() {
    let mut env = IngesterEnv::new(BINARY, "tcp://127.0.0.1:1", "");
    let _instance = env.start();
    let redis = env.redis.url();
    let address = redis.trim_start_matches("redis://").trim_end_matches("/0").to_owned();
    let cause =
        env.base.first_cause("ingester", &format!("no mapping in Redis at {address}, where no controller"));
    assert_eq!(cause.path, "ingester/eiger-ingester/ingester");
    assert!(cause.text.contains(" (for "), "{cause:?}");
    assert!(
        cause.evidence[0].starts_with("no update in `dranspose:controller:updates` of Redis"),
        "{cause:?}"
    );
    let command = format!("redis-cli -u {redis} XREVRANGE dranspose:controller:updates + - COUNT 1");
    assert!(cause.help.starts_with("post a mapping") && cause.help.contains(&command), "{cause:?}");
    assert!(cause.evidence[1].contains("start dranspose's controller"), "{cause:?}");
    env.redis.kill_nine();
    env.base.first_cause("ingester", "is down");
    let without_mapping =
        || env.base.causes("ingester").iter().all(|cause| !cause.text.contains("no mapping"));
    eventually("Redis to be the only cause", without_mapping);
    env.redis.start_again();
    env.base.first_cause("ingester", "no mapping in Redis");
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
    assert!(
        cause.help.ends_with("start worker slow, then begin the scan again, with a new mapping"),
        "{cause:?}"
    );
    // The endpoint adds the cause to the mapping, once.
    let item = |name: &str| env.base.cli(&["why", name]).1;
    let mapping = item(MAPPING);
    let head = format!(
        "mapping ingester/eiger-ingester/{MAPPING}: all assigned events are queued, and worker slow "
    );
    assert!(mapping.starts_with(&head), "{mapping}");
    assert!(
        mapping.contains("  1. ingester/eiger-ingester/egress: worker slow is not connected: "),
        "{mapping}"
    );
    assert!(!mapping.contains("  2. "), "{mapping}");
    let event = item(&format!("ingester/eiger-ingester/{MAPPING}#{FRAMES}"));
    assert!(event.contains(" on disk for worker slow, "), "{event}");
    assert!(event.contains("  1. ingester/eiger-ingester/egress: worker slow is not connected\n"), "{event}");
    let mut slow = ZmtpPeer::connect(env.port, "DEALER", "slow").expect("the ingester listens");
    let cause = env.base.first_cause("ingester", "worker slow reads nothing: ");
    assert_eq!(cause.path, "ingester/eiger-ingester/egress");
    let numbers: Vec<u64> = cause.text.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers[0] > 0 && numbers[1] > 0, "bytes in memory and on disk: {cause:?}");
    assert!(cause.evidence[0].starts_with("slow took its last byte "), "{cause:?}");
    let help =
        "orchestrator ingester status; restart worker slow, then begin the scan again, with a new mapping";
    assert_eq!(cause.help, help);
    for _ in 0..=FRAMES {
        slow.receive().expect("an event");
    }
    eventually("the last event", || env.base.why("ingester").contains("; last event "));
    drop(instance);
    sending.join().expect("the source ends");
}

/// All events are in the workers' sockets.
#[test]
fn a_worker_that_does_not_finish_its_last_event_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = format!("tcp://{}", listener.local_addr().expect("its address"));
    let env = IngesterEnv::new(BINARY, &upstream, "worker_idle_secs = 1");
    let _instance = env.start();
    let (controller, why) = (env.controller(), || env.base.why("ingester"));
    let mut workers =
        ["w1", "w2"].map(|name| ZmtpPeer::connect(env.port, "DEALER", name).expect("the ingester listens"));
    controller.start_mapping(MAPPING, &["eiger", "elsewhere"]);
    let mut source = ZmtpPeer::accept(&listener, "PUSH").expect("the ingester connects");
    source.send(&[HEADER]).expect("the ingester takes it");
    // As a worker that is ready reports it.
    controller.report_finished(MAPPING, "w1", &[]);
    let to = |event, workers: &[&str]| (event, json!({ "eiger": workers }));
    controller
        .assign_events(MAPPING, &[to(0, &["w1", "w2"]), to(1, &["w1"]), to(2, &["w2"]), to(3, &["w1"])]);
    send_image(&mut source, 0, 10);
    workers[0].receive().and_then(|_| workers[0].receive()).expect("two events");
    send_image(&mut source, 1, 10);
    // w1 may have finished event 1: it reports that with event 3.
    let cause = env.base.first_cause("ingester", "worker w2 has not finished event 2, which it got ");
    assert_eq!(cause.path, "ingester/eiger-ingester/egress");
    let evidence = [
        "2 events were sent to w2; no worker has reported one of this mapping as finished",
        "w2 is connected and has sent no ping",
        "other ingesters take part in the mapping: w2 may wait for one of them",
    ];
    assert_eq!(cause.evidence, evidence);
    assert_eq!(
        cause.help,
        "orchestrator ingester status; restart worker w2, then begin the scan again, with a new mapping"
    );
    workers[1].send(&[&[7; 16]]).expect("a ping");
    controller.report_finished(MAPPING, "w2", &[0]);
    let reported = "2 events were sent to w2; the last one that it reported as finished is event 0";
    let cause = wait_for("the report", || {
        let cause = env.base.first_cause("ingester", "worker w2 ");
        (cause.evidence[0] == reported).then_some(cause)
    });
    assert!(cause.evidence[1].starts_with("w2 is connected; its last ping came "), "{cause:?}");
    send_image(&mut source, 2, 10);
    controller.report_finished(MAPPING, "w1", &[0, 1, 3]);
    controller.report_finished(MAPPING, "w2", &[2]);
    eventually("no cause", || why().contains("; last event "));
    // The mapping stays open, and w1 has finished its events for longer.
    controller.assign_events(MAPPING, &[to(4, &["w2"])]);
    send_image(&mut source, 3, 10);
    (0..3).for_each(|_| _ = workers[1].receive().expect("its events"));
    drop(workers);
    wait_for("the lost worker", || {
        let cause = env.base.first_cause("ingester", "worker w2 has not finished event 4, which it got ");
        (cause.evidence.len() == 3 && cause.evidence[1] == "w2 is not connected").then_some(())
    });
    controller.start_mapping("6277a4d0-975c-4dfe-97be-7f6d1d5a5c39", &["eiger"]);
    eventually("no cause", || !why().contains("has not finished"));
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

/// The link would be up, as Redis answers reads, while the key expires and the controller forgets the
/// ingester.
#[test]
fn a_redis_that_refuses_writes_is_a_link_that_is_down() {
    let env = IngesterEnv::new(BINARY, "tcp://127.0.0.1:1", "");
    let _instance = env.start();
    env.controller().start_mapping(MAPPING, &[]);
    let link = || env.base.link("ingester/eiger-ingester/redis");
    // Redis refuses writes once it cannot replace its dump.
    let directory = env.redis.command(&["CONFIG", "GET", "dir"]);
    let dump = Path::new(directory[1].as_str().expect("a path")).join("dump.rdb");
    fs::create_dir(&dump).expect("a directory");
    env.redis.command(&["CONFIG", "SET", "save", "3600 1"]);
    let no_memory = ["CONFIG", "SET", "maxmemory", "1"];
    for (word, help, refuse, accept) in [
        ("MISCONF", "redis-cli INFO persistence", &["BGSAVE"][..], &["CONFIG", "SET", "save", ""][..]),
        ("OOM", "redis-cli INFO memory", &no_memory[..], &["CONFIG", "SET", "maxmemory", "0"][..]),
        ("READONLY", "redis-cli ROLE", &["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"]),
        (
            "NOPERM",
            "redis-cli ACL LIST",
            &["ACL", "SETUSER", "default", "-setex"],
            &["ACL", "SETUSER", "default", "+setex"],
        ),
    ] {
        env.redis.command(refuse);
        eventually("the refusal", || link().state == "down" && link().reason.contains(word));
        let cause = env.base.first_cause("ingester", " refuses: ");
        assert!(cause.text.starts_with("Redis at ") && cause.text.contains(word), "{cause:?}");
        assert!(cause.help.starts_with(help), "{cause:?}");
        env.redis.command(accept);
        eventually("an accepted write", || link().state == "up");
    }
}
