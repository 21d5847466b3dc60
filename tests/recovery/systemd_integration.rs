//! Service manager integration: readiness, watchdog and stop over `NOTIFY_SOCKET`, reload of the
//! configuration by SIGHUP, frozen arbiters, and JSON logs.

use std::{
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram, UnixStream},
    },
    process::Stdio,
    time::{Duration, Instant},
};

use orchestrator_harness::{Instance, TestEnv, Worker, eventually, http, wait_for};
use rustix::process::Signal;
use serde_json::Value;

/// Writes the configuration file and returns its path.
fn configured(env: &TestEnv, telemetry: &str) -> String {
    let file = env.path().join("orchestrator.toml");
    let text = format!(
        "[telemetry]\n{telemetry}\n[admin]\nlisten = \"\"\nunix_socket = {:?}\nchaos = true\n[queue]\ndatabase = {:?}\n\
         input_dir = {:?}\nsocket = {:?}\n",
        env.admin_socket(),
        env.database_path(),
        env.input_dir(),
        env.socket()
    );
    fs::write(&file, text).expect("write a configuration");
    file.display().to_string()
}

/// Starts an instance under a fake service manager. `telemetry` are keys of that section.
fn start(env: &TestEnv, telemetry: &str, watchdog: Option<Duration>) -> (Instance, UnixDatagram) {
    let notify = env.path().join("notify.sock");
    let manager = UnixDatagram::bind(&notify).expect("bind a datagram socket");
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("set a time-out");
    let mut command = env.bare_command();
    command.args(["run", "--config", &configured(env, telemetry)]).env("NOTIFY_SOCKET", &notify);
    let log = fs::File::create(env.log_path()).expect("create a log");
    command.stdout(Stdio::null()).stderr(log);
    if let Some(limit) = watchdog {
        command.env("WATCHDOG_USEC", limit.as_micros().to_string());
    }
    (Instance::spawn(command), manager)
}

/// Next sd_notify message of the process.
fn next_notice(manager: &UnixDatagram) -> String {
    let mut bytes = [0; 512];
    let length = manager.recv(&mut bytes).expect("a notice");
    String::from_utf8_lossy(&bytes[..length]).trim().to_owned()
}

/// Skips messages until one begins with `wanted`.
pub(crate) fn await_notice(manager: &UnixDatagram, wanted: &str) -> String {
    let give_up = Instant::now() + orchestrator_harness::DEADLINE;
    loop {
        let notice = next_notice(manager);
        if notice.starts_with(wanted) {
            return notice;
        }
        assert!(Instant::now() < give_up, "no {wanted}");
    }
}

#[test]
fn an_abstract_socket_of_the_service_manager_is_notified() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let name = format!("orchestrator-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let manager = UnixDatagram::bind_addr(&address).expect("bind an abstract socket");
    manager.set_read_timeout(Some(orchestrator_harness::DEADLINE)).expect("set a time-out");
    let instance = Instance::spawn({
        let mut command = env.command();
        command.env("NOTIFY_SOCKET", format!("@{name}"));
        command
    });
    await_notice(&manager, "READY=1");
    assert!(instance.terminate().success());
    await_notice(&manager, "STOPPING=1");
}

#[test]
fn sd_notify_reports_ready_reloading_and_stopping() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let (mut instance, manager) = start(&env, "", None);
    assert_eq!(next_notice(&manager), "READY=1");
    // Both sockets accept connections when the process is ready; requests wait for the database.
    assert!(Worker::connect(&env.socket()).is_ok(), "ready, but no worker socket");
    assert!(UnixStream::connect(env.admin_socket()).is_ok(), "ready, but no admin socket");
    instance.signal(Signal::HUP);
    let reloading = next_notice(&manager);
    assert!(reloading.starts_with("RELOADING=1") && reloading.contains("MONOTONIC_USEC="), "{reloading}");
    assert_eq!(next_notice(&manager), "READY=1");
    instance.signal(Signal::TERM);
    assert_eq!(next_notice(&manager), "STOPPING=1");
    assert_eq!(instance.wait().code(), Some(0), "{}", env.log());
}

/// Readiness names the frozen arbiter, and the watchdog is fed only while every arbiter runs.
#[test]
fn a_frozen_arbiter_is_reported_and_stops_the_watchdog() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let (_instance, manager) = start(&env, "", Some(Duration::from_millis(800)));
    await_notice(&manager, "READY=1");
    for _ in 0..5 {
        await_notice(&manager, "WATCHDOG=1");
    }
    let frozen = Instant::now();
    let reply = http(
        &env.admin_socket(),
        "POST",
        "/v1/actors/queue/fetcher_watcher/freeze",
        &[],
        "{\"reason\":\"drill\"}",
    );
    assert_eq!(reply.status, 200, "{}", reply.body);
    let named = wait_for("readiness to name it", || {
        let reply = http(&env.admin_socket(), "GET", "/readyz?verbose", &[], "");
        (reply.status == 503).then_some(reply.body)
    });
    assert!(frozen.elapsed() < Duration::from_secs(2), "flagged after {:?}", frozen.elapsed());
    assert!(named.contains("failed: orchestrator/queue") && named.contains("is blocked"), "{named}");
    let node = http(&env.admin_socket(), "GET", "/v1/tree/queue/fetcher_watcher", &[], "").json();
    assert_eq!(node.pointer("/root/stuck").or(node.pointer("/stuck")), Some(&Value::Bool(true)), "{node}");
    // Normally four messages come within 800 ms; during the freeze none does.
    manager.set_read_timeout(Some(Duration::from_millis(700))).expect("set a time-out");
    let mut silent = false;
    let mut bytes = [0; 64];
    while frozen.elapsed() < Duration::from_secs(4) && !silent {
        silent = manager.recv(&mut bytes).is_err();
    }
    assert!(silent, "the watchdog was fed although an arbiter stood still");
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("set a time-out");
    await_notice(&manager, "WATCHDOG=1");
    eventually("readiness", || http(&env.admin_socket(), "GET", "/readyz", &[], "").status == 200);
    assert!(env.log().contains("watchdog is not fed"), "{}", env.log());
}

#[test]
fn sighup_applies_the_log_filter_and_names_keys_that_need_a_restart() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let (instance, manager) = start(&env, "filter = \"info\"", None);
    await_notice(&manager, "READY=1");
    let restart = || {
        let reply = http(&env.admin_socket(), "POST", "/v1/actors/queue/fetcher_watcher/restart", &[], "{}");
        assert_eq!(reply.status, 200, "{}", reply.body);
    };
    restart();
    assert!(!env.log().contains("DEBUG"), "{}", env.log());

    let file = configured(&env, "filter = \"debug\"");
    let text = fs::read_to_string(&file).expect("it is there") + "hold_secs = 77\n";
    fs::write(&file, text).expect("write a configuration");
    instance.signal(Signal::HUP);
    await_notice(&manager, "READY=1");
    assert!(env.log().contains("telemetry.filter"), "{}", env.log());
    assert!(env.log().contains("queue.hold_secs") && env.log().contains("restart"), "{}", env.log());
    let why = || env.cli(&["why"]).1;
    let metrics = || http(&env.admin_socket(), "GET", "/metrics", &[], "").body;
    let pending = "orchestrator:\n  1. orchestrator: changed keys need a restart: queue.hold_secs (for ";
    assert!(why().starts_with(pending), "{}", why());
    assert!(metrics().contains("\norchestrator_config_last_reload_successful 1\n"));
    restart();
    eventually("more to be logged", || env.log().contains("DEBUG"));

    // A refused configuration changes nothing.
    configured(&env, "filter = \"info\"\nfilterr = \"x\"");
    instance.signal(Signal::HUP);
    await_notice(&manager, "READY=1");
    assert!(env.log().contains("filterr") && env.log().contains("cannot reload"), "{}", env.log());
    let first = why().lines().nth(1).map(str::to_owned).unwrap_or_default();
    assert!(first.starts_with("  1. orchestrator: the configuration was not reloaded: "), "{}", why());
    let line =
        fs::read_to_string(&file).expect("it is there").lines().position(|line| line.contains("filterr"));
    let place = format!("{}:{}", file, line.expect("its line") + 1);
    assert!(first.contains(&place) && first.contains("filterr"), "{place} in {}", why());
    assert!(metrics().contains("\norchestrator_config_last_reload_successful 0\n"));
    assert!(metrics().contains("orchestrator_blocked{path=\"orchestrator\",cause=\"reload_failed\"} 1\n"));
    let before = env.log().matches("DEBUG").count();
    restart();
    eventually("debug lines still to come", || env.log().matches("DEBUG").count() > before);
}

#[test]
fn json_logs_name_the_child() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    env.write("f.notanumber.txt", "alpha 0 1\n");
    let (mut instance, manager) = start(&env, "format = \"json\"", None);
    await_notice(&manager, "READY=1");
    let named = |line: &Value, path: &str| line.pointer("/span/path").and_then(Value::as_str) == Some(path);
    let lines = || -> Vec<Value> {
        let log = env.log();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        whole.lines().map(parse).collect()
    };
    // One child is a thread, the other one a task.
    for child in ["reader", "inotify"] {
        let path = format!("orchestrator/queue/{child}");
        eventually("the child to say something", || lines().iter().any(|line| named(line, &path)));
    }
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait().code(), Some(0));
    for line in lines() {
        assert!(
            line["timestamp"].is_string() && line["level"].is_string() && line["target"].is_string(),
            "{line}"
        );
    }
}
