//! Situation 25: memory above the budget is a cause of the whole process that names the largest queue.

use std::{fs, net::TcpListener, thread};

use orchestrator_harness::{IngesterEnv, TestEnv, ZmtpPeer, eventually, http, wait_for};
use serde_json::{Value, json};

const MAPPING: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";
const MIB: u64 = 1 << 20;
const BUDGET: u64 = 128 * MIB;
const FRAME: usize = 2 << 20;
const FRAMES: u64 = 80;

/// The first cause of all, if it is that of the memory.
fn above_budget(env: &TestEnv) -> Option<Value> {
    let (_, out, _) = env.cli(&["why", "--json"]);
    let answer: Value = serde_json::from_str(&out).unwrap_or_default();
    let first = &answer["subsystems"][0]["causes"][0];
    (first["kind"] == "memory_above_budget").then(|| first.clone())
}

fn metrics(env: &TestEnv) -> String {
    http(&env.admin_socket(), "GET", "/metrics", &[], "").body
}

/// Sends a series of images as fast as they are taken, and keeps the connection open.
fn send_series(listener: &TcpListener) {
    let mut peer = ZmtpPeer::accept(listener, "PUSH").expect("the ingester connects");
    let mut send = |parts: &[&[u8]]| peer.send(parts).expect("the ingester takes it");
    send(&[br#"{"htype":"header","msg_number":0,"filename":""}"#]);
    for frame in 0..FRAMES {
        let head = format!(
            r#"{{"htype":"image","frame":{frame},"shape":[2048,1024],"type":"uint8","compression":"none","msg_number":{}}}"#,
            frame + 1
        );
        send(&[head.as_bytes(), &vec![7; FRAME]]);
    }
    let _ = peer.receive();
}

#[test]
fn memory_above_the_budget_names_the_largest_queue_first_until_it_is_drained() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let upstream = format!("tcp://{}", listener.local_addr().expect("its address"));
    let env = IngesterEnv::new(env!("CARGO_BIN_EXE_orchestrator"), &upstream, "spill_bytes = 0");
    let file = env.base.path().join("ingester.toml");
    let text = fs::read_to_string(&file).expect("the configuration");
    let text = text.replacen("[admin]\n", &format!("[admin]\nmemory_budget = {BUDGET}\n"), 1);
    fs::write(&file, text).expect("write the configuration");
    let instance = env.start();
    assert_eq!(above_budget(&env.base), None, "{} MiB without queues", instance.memory("VmRSS") / MIB);
    let controller = env.controller();
    controller.start_mapping(MAPPING, &["eiger"]);
    let events: Vec<_> = (0..=FRAMES).map(|event| (event, json!({ "eiger": ["slow"] }))).collect();
    controller.assign_events(MAPPING, &events);
    let sending = thread::spawn(move || send_series(&listener));

    eventually("all frames to be queued", || {
        env.metric("egress", "worker_queued") >= FRAMES as i64 * FRAME as i64
    });
    let cause = wait_for("the cause", || above_budget(&env.base));
    let text = cause["text"].as_str().expect("a text");
    let (used, of) = text.split_once(" MiB of memory, ").expect("the figure");
    let used: u64 = used.trim_start_matches("the process uses ").parse().expect("a number");
    assert!(used > FRAMES * 2 && of == "above its budget of 128 MiB", "{text}");
    let largest = "ingester/eiger-ingester/egress, worker slow: `worker_queued` has ";
    let evidence = cause["evidence"][0].as_str().expect("evidence");
    assert!(evidence.starts_with(largest) && evidence.ends_with(" of at most 268435456 bytes"), "{cause}");
    let help = cause["help"].as_str().expect("help").split(';').next().unwrap_or_default();
    let command: Vec<_> = help.split(' ').skip(1).collect();
    assert_eq!(env.base.cli(&command).0, 0, "{help}");
    let shown = metrics(&env.base);
    for series in [
        "orchestrator_memory_budget_bytes 134217728",
        r#"orchestrator_blocked{path="orchestrator",cause="memory_above_budget"} 1"#,
    ] {
        assert!(shown.lines().any(|line| line == series), "{series} in {shown}");
    }
    assert_eq!(
        http(&env.base.admin_socket(), "GET", "/readyz", &[], "").status,
        200,
        "memory is no readiness"
    );

    let mut slow = ZmtpPeer::connect(env.port, "DEALER", "slow").expect("the ingester listens");
    for _ in 0..=FRAMES {
        slow.receive().expect("an event");
    }
    eventually(&format!("{} MiB to be within the budget", instance.memory("VmRSS") / MIB), || {
        above_budget(&env.base).is_none()
    });
    drop(instance);
    sending.join().expect("the source ends");
}

#[test]
fn a_healthy_queue_is_within_the_budget_of_its_bounds() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    env.write("f.1.txt", "alpha 0 1\n");
    let _instance = env.start();
    assert_eq!(env.worker().ready().attr_path(), "alpha");
    // 256 MiB, three times the longest line while it is stored, and once while it is sent (CONTRACT QR16).
    let budget = format!("orchestrator_memory_budget_bytes {}", 256 * MIB + 4 * 67_174_400);
    assert!(metrics(&env).lines().any(|line| line == budget), "{}", metrics(&env));
    assert_eq!(above_budget(&env), None);
}
