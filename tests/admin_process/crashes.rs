//! `orchestrator crashes`: a child that fails again and again leaves its reports.

use orchestrator_harness::{Instance, TestEnv, eventually};
use serde_json::Value;

#[test]
fn a_crash_loop_is_shown_with_position_events_and_metrics() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.chaos=true");
    let mut command = env.command();
    command.env("RUST_BACKTRACE", "1");
    let instance = Instance::spawn(command);
    instance.await_service(&env);
    assert_eq!(env.cli(&["crashes"]), (0, "no child has crashed\n".to_owned(), String::new()));
    let before = instance.memory("VmRSS");
    for round in 1..=3 {
        env.inject_panic("queue/fetcher_watcher");
        let restarts = || env.node("queue/fetcher_watcher")["restarts"].as_u64();
        eventually("a restart", || restarts() == Some(round));
        eventually("it runs", || env.node("queue/fetcher_watcher")["state"] == "running");
    }
    let (code, out, err) = env.cli(&["crashes", "queue/fetcher_watcher", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let answer: Value = serde_json::from_str(&out).expect("JSON");
    let reports = answer["crashes"].as_array().expect("reports");
    let incarnations: Vec<_> = reports.iter().map(|report| report["incarnation"].as_u64()).collect();
    assert_eq!(incarnations, [Some(3), Some(2), Some(1)], "newest first");
    let report = &reports[0];
    assert_eq!((&report["kind"], &report["message"]), (&"panicked".into(), &"injected panic".into()));
    assert!(report["location"].as_str().is_some_and(|at| at.contains("runner.rs:")), "{report}");
    let frames = report["backtrace"].as_array().expect("a backtrace");
    assert!(
        frames.iter().any(|frame| frame.as_str().is_some_and(|text| text.contains("Runner"))),
        "{report}"
    );
    // The command that led to the panic is recorded after it, the earlier panics before it.
    let exits =
        report["events"].as_array().expect("events").iter().filter(|event| event["event"] == "exited");
    assert!(exits.count() >= 2, "{report}");
    let (code, out, err) = env.cli(&["crashes"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert_eq!(out.matches("queue/fetcher_watcher, incarnation ").count(), 3, "{out}");
    assert!(out.contains("  panicked: injected panic\n") && out.contains("  backtrace:\n    0: "), "{out}");
    // The debug information of the binary, over 100 MB, is read in another process.
    let grown = instance.memory("VmRSS").saturating_sub(before) >> 20;
    assert!(grown < 16, "panics and their reports took {grown} MiB");
    let (code, ..) = env.cli(&["crashes", "queue/missing"]);
    assert_eq!(code, 4, "there is no such child");
    // `why` names the loop and the command that shows it.
    let (_, out, _) = env.cli(&["why", "queue"]);
    assert!(out.contains("do: orchestrator crashes queue/fetcher_watcher\n"), "{out}");
}
