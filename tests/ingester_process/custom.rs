//! The Python process of an ingester class is killed in the middle of scans, ends with the program, or cannot
//! start.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, thread, time::Duration};

use orchestrator_harness::{
    IngesterEnv, Instance, TestEnv, ZmtpPeer,
    dranspose::{programs, python as interpreter},
    eventually, rounds, wait_for,
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::detector::{Detector, May};

const BINARY: &str = env!("CARGO_BIN_EXE_orchestrator");
/// Events of the scan in which the process is killed, more than all buffers hold.
const KILLED: u64 = 20_000;
/// Events of a whole scan.
const WHOLE: u64 = 300;

/// Processes that `instance` has started.
fn children(instance: &Instance) -> Vec<Pid> {
    let tasks = Path::new("/proc").join(instance.pid().to_string()).join("task");
    let lists = fs::read_dir(tasks).expect("the process runs").flatten();
    let lists = lists.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<i32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect();
    pids.into_iter().filter_map(Pid::from_raw).collect()
}

/// The process of the class, once it runs and has taken part in `scan`.
fn python(instance: &Instance) -> Pid {
    wait_for("one Python process", || match children(instance)[..] {
        [pid] => Some(pid),
        _ => None,
    })
}

/// Starts mapping number `number` with `events` events for the worker `w1`.
fn start_scan(env: &IngesterEnv, number: u64, events: u64) -> String {
    let mapping = format!("6277a4d0-975c-4dfe-97be-{number:012x}");
    let controller = env.controller();
    controller.start_mapping(&mapping, &["eiger"]);
    let assigned: Vec<(u64, Value)> = (0..events).map(|event| (event, json!({"eiger": ["w1"]}))).collect();
    controller.assign_events(&mapping, &assigned);
    mapping
}

/// Checks that `parts` is the message of `event`, with the item of that number.
fn check_event(parts: &[Vec<u8>], event: u64) {
    let header: Value = serde_json::from_slice(&parts[0]).expect("a header");
    assert_eq!(
        (&header["event_number"], &header["streams"]["eiger"]["typ"]),
        (&json!(event), &json!("NUMBERED"))
    );
    let content = vec![(event % 251) as u8; 1000];
    assert!(parts[1..] == [format!("item {event}").into_bytes(), content], "event {event} has other parts");
}

/// A worker that reads events until none comes.
struct Worker(ZmtpPeer);

impl Worker {
    fn dial(env: &IngesterEnv) -> Self {
        Self(ZmtpPeer::connect(env.port, "DEALER", "w1").expect("the ingester listens"))
    }

    fn take(&mut self, events: std::ops::Range<u64>) {
        self.0.set_read_timeout(orchestrator_harness::DEADLINE).expect("a socket");
        for event in events {
            check_event(&self.0.receive().expect("the next event"), event);
        }
    }

    /// Reads what is left of a scan from `event` on; the connection may be reset by the next mapping.
    fn take_rest(&mut self, mut event: u64) -> u64 {
        self.0.set_read_timeout(Duration::from_millis(300)).expect("a socket");
        while let Ok(parts) = self.0.receive() {
            check_event(&parts, event);
            event += 1;
        }
        event
    }
}

/// The scan in which the process is killed ends with whole events in order; the next scan is exact.
#[test]
fn a_scan_after_a_kill_of_the_process_is_whole() {
    let env = IngesterEnv::with_class(BINARY, "site_ingesters:Numbered");
    let instance = env.start();
    for round in 1..=rounds("ORCHESTRATOR_PYTHON_KILL_ROUNDS", 3) {
        let mut worker = Worker::dial(&env);
        start_scan(&env, 2 * round, KILLED);
        worker.take(0..50 + round * 37 % 100);
        kill_process(python(&instance), Signal::KILL).expect("it runs");
        eventually("the exit to be counted", || env.metric("python_0", "python_exits") == round as i64);
        let last = worker.take_rest(50 + round * 37 % 100);
        assert!(last < KILLED, "round {round}: killed after the scan");
        let (_, tree, _) = env.base.cli(&["tree", "ingester/eiger-ingester"]);
        assert!(tree.contains("the Python process has ended"), "{tree}");
        // The new mapping resets a connection that may carry messages of the former one.
        let mut worker = Worker::dial(&env);
        let whole = start_scan(&env, 2 * round + 1, WHOLE);
        worker.take(0..WHOLE);
        env.controller().publish_update(&orchestrator_harness::Controller::update_json(&whole, &[], true));
        eventually("the end to be answered", || env.controller().is_finished(&whole));
    }
    assert!(instance.terminate().success());
}

/// The Python process ends with the program, also after SIGKILL and while the class computes.
#[test]
fn the_process_ends_with_the_program() {
    let env = IngesterEnv::with_class(BINARY, "site_ingesters:Numbered");
    for (number, kill) in [(1, true), (2, false)] {
        let instance = env.start();
        let mut worker = Worker::dial(&env);
        start_scan(&env, number, KILLED);
        worker.take(0..10);
        let process = python(&instance);
        if kill {
            instance.kill_nine();
        } else {
            assert!(instance.terminate().success());
        }
        eventually("the process to end", || test_kill_process(process).is_err());
        let reading = thread::spawn(move || worker.take_rest(10));
        assert!(reading.join().expect("whole events in order") < KILLED);
    }
}

/// A class whose process cannot start holds up no mapping without the class.
#[test]
fn a_mapping_without_the_class_needs_no_process() {
    let detector = Arc::new(Detector::new());
    let keys =
        "python = \"/nowhere/python\"\n[[ingester.stream]]\nname = \"made\"\nsource = \"module:Class\"";
    let env = IngesterEnv::new(BINARY, &detector.url(), keys);
    let instance = env.start();
    let controller = env.controller();
    // More chunks of events than may wait for a process.
    let (mapping, images) = ("6277a4d0-975c-4dfe-97be-000000000001", 8_000);
    controller.start_mapping(mapping, &["eiger"]);
    let assigned: Vec<_> = (0..images + 2).map(|event| (event, json!({ "eiger": [] }))).collect();
    controller.assign_events(mapping, &assigned);
    eventually("the detector is connected", || {
        env.base.link("ingester/eiger-ingester/scan/stream_1").state == "up"
    });
    let source = detector.clone();
    let sending = thread::spawn(move || {
        source.start(1);
        let sent = source.images(1, 0..images, |_| May::Go);
        source.end(1);
        sent
    });
    eventually("all events", || env.metric("scan/work", "events") == images as i64 + 2);
    assert_eq!(sending.join().expect("it sends"), images);
    assert_eq!(env.base.link("ingester/eiger-ingester/python_0").state, "down");
    assert!(instance.terminate().success());
}

/// Variables of the program in both tests of the environment.
const VARIABLES: [(&str, &str); 5] = [
    ("BEAMLINE_TOKEN", "s3cr3t"),
    ("CREDENTIALS_DIRECTORY", "/run/credentials/x"),
    ("KRB5CCNAME", "/tmp/cc"),
    ("LC_TIME", "C"),
    ("ORCHESTRATOR_SECRET", "s3cr3t"),
];

/// Environment that the class `Environ` wrote into the directory of `env`.
fn environment(env: &TestEnv) -> BTreeMap<String, String> {
    let text = wait_for(&format!("the class to run; log:\n{}", env.log()), || {
        fs::read_to_string(env.path().join("environ.json")).ok()
    });
    serde_json::from_str(&text).expect("variables")
}

/// A class gets a few harmless variables, and those of `env` and `env_pass`.
#[test]
fn a_class_inherits_no_secrets() {
    let keys = format!(
        "python = \"{}\"\nenv_pass = [\"KRB5CCNAME\"]\nenv = {{ PYTHONPATH = \"{}\", MODE = \"fast\" }}",
        interpreter().display(),
        programs().display()
    );
    let exports = VARIABLES.map(|(name, value)| format!("export {name}={value}")).join("; ");
    let base = TestEnv::new(BINARY).shell(&exports);
    let env = IngesterEnv::with_source(base, "site_ingesters:Environ", "tcp://127.0.0.1:9", &keys);
    let instance = env.start();
    let found = environment(&env.base);
    for (name, value) in [("KRB5CCNAME", "/tmp/cc"), ("LC_TIME", "C"), ("MODE", "fast")] {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{found:?}");
    }
    assert_eq!(found.get("SERVICE_REDIS_DSN"), Some(&env.redis.url()));
    for name in ["BEAMLINE_TOKEN", "CREDENTIALS_DIRECTORY", "ORCHESTRATOR_SECRET", "ORCHESTRATOR_SOCKET"] {
        assert!(!found.contains_key(name), "{name}");
    }
    assert!(found.values().all(|value| !value.contains("s3cr3t")), "{found:?}");
    assert!(instance.terminate().success());
}

/// In place of the original, a class has all variables but those of this program.
#[test]
fn a_class_of_a_drop_in_inherits_all_but_our_own() {
    let env = TestEnv::new(BINARY);
    let mut command = env.bare_command();
    command.args(["as", "dranspose-ingester", "--ingesterclass", "site_ingesters:Environ"]);
    command.args(["--name", "made", "--upstream_url", "tcp://127.0.0.1:9", "--python"]).arg(interpreter());
    command.env("PYTHONPATH", programs()).env("INGESTER_URL", "tcp://localhost:0").envs(VARIABLES);
    command.env("ORCHESTRATOR__QUEUE__DATABASE", "s3cr3t.db").env("REDIS_URL", "redis://127.0.0.1:9/0");
    let instance = Instance::spawn(command);
    let found = environment(&env);
    let ours = |name: &str| name.starts_with("ORCHESTRATOR") || name == "CREDENTIALS_DIRECTORY";
    for (name, value) in VARIABLES.into_iter().filter(|(name, _)| !ours(name)) {
        assert_eq!(found.get(name).map(String::as_str), Some(value), "{found:?}");
    }
    assert!(found.keys().all(|name| !ours(name)), "{found:?}");
    assert!(instance.terminate().success());
}
