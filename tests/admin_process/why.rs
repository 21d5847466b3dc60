//! `orchestrator why`: each situation is named first, with its evidence and the command that helps.

use std::fs;

use orchestrator_harness::{Reply, TestEnv, eventually};
use serde_json::Value;

fn env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
}

/// Asks for the causes of a branch, the most effective one first.
fn causes(env: &TestEnv, branch: &str) -> Vec<Value> {
    let (code, out, err) = env.cli(&["why", branch, "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let why: Value = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
    why["subsystems"][0]["causes"].as_array().expect("causes").clone()
}

/// Waits until the first cause is of this kind, and returns it.
fn first(env: &TestEnv, branch: &str, kind: &str) -> Value {
    eventually(kind, || causes(env, branch).first().is_some_and(|cause| cause["kind"] == kind));
    causes(env, branch).swap_remove(0)
}

#[test]
fn a_working_queue_has_no_cause() {
    let env = env();
    env.write("f.1.txt", "alpha 0 1\n");
    let _instance = env.start();
    assert!(matches!(env.worker().ready(), Reply::Job { .. }));
    eventually("no cause", || causes(&env, "queue").is_empty());
    let (_, out, _) = env.cli(&["why", "queue"]);
    assert_eq!(out, "queue: nothing holds up work\n");
}

#[test]
fn a_paused_queue_is_named_before_its_other_causes() {
    let env = env();
    let _instance = env.start();
    let (code, ..) = env.cli(&["queue", "pause"]);
    assert_eq!(code, 0);
    let cause = first(&env, "queue", "paused");
    assert_eq!(cause["path"], "orchestrator/queue/queue_console");
    assert_eq!(cause["help"], "orchestrator queue resume");
    // The state outlives a restart of the child that reports it.
    let (code, ..) = env.cli(&["restart", "queue/queue_console", "--reason", "test"]);
    assert_eq!(code, 0);
    first(&env, "queue", "paused");
    let (code, ..) = env.cli(&["queue", "resume"]);
    assert_eq!(code, 0);
    eventually("no cause", || causes(&env, "queue").is_empty());
}

#[test]
fn a_locked_database_names_the_file_and_how_to_find_the_holder() {
    let env = env();
    env.write("f.1.txt", "alpha 0 1\n");
    let _instance = env.start();
    let foreign = env.database();
    foreign.expect("SELECT count(*) FROM queue", &["1"]);
    foreign.execute("BEGIN IMMEDIATE");
    let reply = std::thread::scope(|scope| {
        let asking = scope.spawn(|| env.worker().ready());
        let cause = first(&env, "queue", "link_down");
        assert_eq!(cause["path"], "orchestrator/queue/queue_store");
        assert!(
            cause["text"].as_str().is_some_and(|text| text.contains("in use by another process")),
            "{cause}"
        );
        assert!(cause["help"].as_str().is_some_and(|help| help.starts_with("fuser -v ")), "{cause}");
        foreign.execute("COMMIT");
        asking.join().expect("the worker is answered")
    });
    assert!(matches!(reply, Reply::Job { .. }), "{reply:?}");
}

#[test]
fn an_input_directory_that_is_away_is_named() {
    let env = env();
    let _instance = env.start();
    let away = env.path().join("away");
    fs::rename(env.input_dir(), &away).expect("move the directory");
    let cause = first(&env, "queue", "link_down");
    assert_eq!(cause["path"], "orchestrator/queue/inotify");
    assert!(cause["help"].as_str().is_some_and(|help| help.starts_with("ls -ld ")), "{cause}");
}

#[test]
fn a_broker_that_is_away_is_named_with_the_next_attempt() {
    let env = env()
        .set("provenance.transport=amqp")
        .set("provenance.amqp.url=amqp://127.0.0.1:1")
        .set("provenance.sqlite.path=provenance.db");
    let _instance = env.spawn();
    eventually("the endpoint", || env.snapshot().is_some());
    let cause = first(&env, "provenance", "link_down");
    assert!(cause["text"].as_str().is_some_and(|text| text.starts_with("amqp to ")), "{cause}");
    assert!(
        cause["evidence"][0].as_str().is_some_and(|text| text.starts_with("next attempt in ")),
        "{cause}"
    );
}

#[test]
fn a_child_that_fails_again_and_again_is_named() {
    let env = env().set("admin.chaos=true");
    let _instance = env.start();
    for round in 1..=3 {
        env.actor_command("queue/housekeeper", "panic");
        let restarts = || env.node("queue/housekeeper")["restarts"].as_u64();
        eventually("a restart", || restarts() == Some(round));
        eventually("it runs", || env.node("queue/housekeeper")["state"] == "running");
    }
    // A failed child takes those after it along; they are no causes.
    let cause = first(&env, "queue", "crash_loop");
    assert_eq!(cause["path"], "orchestrator/queue/housekeeper");
    assert!(cause["text"].as_str().is_some_and(|text| text.contains("panicked")), "{cause}");
}
