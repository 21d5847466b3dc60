//! A subsystem that fails again and again is given up and tried again later, while another one runs.

use std::{os::unix::net::UnixDatagram, time::Duration};

use orchestrator_harness::{Instance, TestEnv, eventually, http, try_http};

use crate::systemd_integration::await_notice;

#[test]
fn a_subsystem_is_given_up_while_another_runs_and_the_last_one_ends_the_process() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
        .set("provenance.sqlite.path=provenance.db")
        .set("provenance.dead_letters=dead-letters.db");
    env.write("f.1.txt", "alpha 0 1\nbravo 0 1\n");
    let notify = env.path().join("notify.sock");
    let manager = UnixDatagram::bind(&notify).expect("bind a datagram socket");
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("set a time-out");
    let mut command = env.command();
    command.env("NOTIFY_SOCKET", &notify);
    let mut instance = Instance::spawn(command);
    await_notice(&manager, "READY=1");
    let worker = &mut env.worker();
    assert_eq!(worker.ready().attr_path(), "alpha");

    env.exceed_restarts("provenance");
    let node = env.node("provenance");
    let next = node["retry_in_ms"].as_u64();
    assert!(next.is_some_and(|ms| ms <= 10_000), "{node}");
    let reason = "panicked: injected panic";
    assert_eq!(node["last_exit"]["reason"], reason);
    let status = await_notice(&manager, "STATUS=");
    assert_eq!(status, format!("STATUS=provenance is given up: {reason}"));
    let ready = http(&env.admin_socket(), "GET", "/readyz", &[], "");
    let line = format!("failed: orchestrator/provenance: given_up, last exit {reason}\n");
    assert_eq!((ready.status, ready.body), (503, line), "its children are left out");
    let (_, why, _) = env.cli(&["why"]);
    let text = format!("provenance:\n  1. provenance: given up: {reason}");
    assert!(why.starts_with(&text) && why.contains("tried again in "), "{why}");
    let (_, tree, _) = env.cli(&["tree"]);
    let row = tree.lines().find(|line| line.contains("provenance")).expect("its row");
    assert!(row.contains("given_up") && row.contains("tried again in "), "{row}");
    let metrics = http(&env.admin_socket(), "GET", "/metrics", &[], "").body;
    let gauge = |path: &str| format!("orchestrator_child_given_up{{path=\"orchestrator/{path}\"}}");
    for line in [format!("{} 1\n", gauge("provenance")), format!("{} 0\n", gauge("queue"))] {
        assert!(metrics.contains(&line), "no {line}");
    }
    assert_eq!(worker.done("alpha", 0).attr_path(), "bravo", "the queue works");
    assert_eq!(env.node("queue")["restarts"], 0);

    // An operator starts it at once, with its full budget.
    assert_eq!(env.cli(&["start", "provenance"]).0, 0);
    assert_eq!(await_notice(&manager, "STATUS="), "STATUS=");
    eventually("readiness", || http(&env.admin_socket(), "GET", "/readyz", &[], "").status == 200);
    env.exceed_restarts("provenance");
    let next = env.node("provenance")["retry_in_ms"].as_u64();
    assert!(next.is_some_and(|ms| (10_001..=20_000).contains(&ms)), "{next:?}");

    env.exceed_restarts("queue");
    assert_eq!(instance.wait().code(), Some(70), "{}", env.log());
}

/// The endpoint is no subsystem: it ends none, and its running keeps no process up.
#[test]
fn an_endpoint_that_is_given_up_leaves_the_subsystem_running() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    env.write("f.1.txt", "alpha 0 1\n");
    let instance = env.start();
    eventually("the endpoint to be given up", || {
        // It does not answer while it restarts.
        let _ = try_http(&env.admin_socket(), "POST", "/v1/actors/admin/panic", &[], "{}");
        env.log().contains("child given up")
    });
    assert_eq!(env.worker().ready().attr_path(), "alpha");
    assert_eq!(instance.terminate().code(), Some(0), "{}", env.log());
}
