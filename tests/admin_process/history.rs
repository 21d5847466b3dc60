//! The samples of the history over the end of the process.

use std::fs;

use orchestrator_harness::{TestEnv, eventually, http, wait_for};
use serde_json::Value;

const NOTHING: &[&str] = &["Accept: application/json"];

/// Times of the samples of the queue's branch.
fn times(env: &TestEnv) -> Vec<u64> {
    let reply = http(&env.admin_socket(), "GET", "/v1/history?path=queue&metric=child_state", NOTHING, "");
    assert_eq!(reply.status, 200, "{}", reply.body);
    let times = reply.json()["at_ms"].as_array().cloned().unwrap_or_default();
    times.iter().filter_map(Value::as_u64).collect()
}

fn first_sample(env: &TestEnv) -> u64 {
    wait_for("a sample", || times(env).first().copied())
}

#[test]
fn a_planned_restart_keeps_the_history() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let instance = env.start();
    let first = first_sample(&env);
    let before = times(&env);
    assert!(instance.terminate().success());
    assert!(env.path().join("var/history").is_file());

    let instance = env.start();
    eventually("a sample of the second process", || times(&env).len() > before.len());
    let times = times(&env);
    assert!(times.starts_with(&before), "{times:?} after {before:?}");
    let url = format!("/v1/tree?at={first}");
    let past = http(&env.admin_socket(), "GET", &url, NOTHING, "");
    assert_eq!(past.status, 200, "the tree of the first process: {}", past.body);
    assert!(instance.terminate().success());
}

#[test]
fn a_damaged_history_is_dropped_with_a_warning() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let instance = env.start();
    let first = first_sample(&env);
    assert!(instance.terminate().success());
    let path = env.path().join("var/history");
    let mut bytes = fs::read(&path).expect("the history");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).expect("damage the history");

    let instance = env.start();
    assert!(first_sample(&env) > first);
    let log = env.log();
    assert!(log.contains("the history begins empty") && log.contains("its checksum does not match"), "{log}");
    assert!(instance.terminate().success());
    let instance = env.start();
    assert!(first_sample(&env) > first, "a valid file replaced the damaged one");
    assert_eq!(env.log().matches("the history begins empty").count(), 1);
    assert!(instance.terminate().success());
}

#[test]
fn a_history_that_cannot_be_written_is_a_warning() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    fs::write(env.path().join("var"), "not a directory").expect("write");
    let instance = env.start();
    first_sample(&env);
    assert!(instance.terminate().success());
    assert!(env.log().contains("the history is not kept"), "{}", env.log());
}
