//! Repeated panics escalate level by level until the process exits with code 70.

use orchestrator_harness::{Instance, Snapshot, TestEnv, eventually, try_http, wait_for};
use serde_json::Value;

/// Exceeds the restart intensity of the queue, and then that of the root. No other subsystem runs.
#[test]
fn repeated_panics_escalate_and_exit_with_code_70() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    env.write("f.1.txt", "alpha 0 1\n");
    let mut instance = env.start();

    // The queue's supervisor allows five restarts in 30 s; the sixth escalates to the root.
    for restarts in 1..=5 {
        env.inject_panic("queue/inotify");
        wait_for("a restart", || (restarts_of(&env, "queue/inotify")? == restarts).then_some(()));
        assert_eq!(restarts_of(&env, "queue"), Some(0), "the queue's supervisor escalated after {restarts}");
    }
    assert_eq!(env.node("queue/inotify")["budget_left"], 0);
    env.inject_panic("queue/inotify");
    let tree = wait_for("the queue to be started afresh", || healed(&env, "queue"));
    assert_eq!(tree.node("queue")["restarts"], 1);
    assert_eq!(exit_of(&tree, "queue")["kind"], "failed");
    let why = exit_of(&tree, "queue")["reason"].as_str().expect("a reason").to_owned();
    assert!(why.contains("more than 5 restarts in 30s") && why.contains("queue/inotify"), "{why}");
    assert_eq!(env.worker().ready().attr_path(), "alpha", "it serves as before");

    // The root allows three restarts in 60 s; the one above was the first.
    for restarts in 2..=3 {
        env.inject_panic("queue");
        wait_for("a restart", || (restarts_of(&env, "queue")? == restarts).then_some(()));
        wait_for("the queue to be up", || healed(&env, "queue"));
    }
    env.inject_panic("queue");
    assert_eq!(instance.wait().code(), Some(70));
    let log = env.log();
    for wanted in ["supervisor gives up", "more than 3 restarts in 60s", "the root supervisor gave up"] {
        assert!(log.contains(wanted), "no {wanted:?} in the log:\n{log}");
    }
    assert!(!env.socket().exists(), "the rest was drained and the worker socket removed");

    // The database has no trace of the panics.
    let again: Instance = env.start();
    assert_eq!(env.worker().done("alpha", 0), orchestrator_harness::Reply::NoJobs);
    assert!(again.terminate().success());
}

/// A task or actor panics before the answer.
#[test]
fn the_answer_to_a_panic_of_a_thread_says_that_it_acts_later() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let _instance = env.start();
    // Workers are served before all children have started, and a child that does not run refuses a panic.
    eventually("all children to run", || env.snapshot().is_some_and(|tree| tree.runs()));
    let note = |path: &str| env.actor_command(path, "panic").json()["note"].clone();
    // The restart of the store stops the children after it.
    assert_eq!(note("queue/inotify"), Value::Null);
    assert_eq!(note("queue/queue_store"), "a thread panics at the next work item that it begins");
}

/// Without `admin.chaos` injected panics are refused.
#[test]
fn panics_are_refused_without_chaos() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set("admin.chaos=false");
    let _instance = env.start();
    let reply = try_http(&env.admin_socket(), "POST", "/v1/actors/queue/reader/panic", &[], "{}");
    let reply = reply.expect("an answer");
    assert_eq!(reply.status, 409, "{}", reply.body);
    assert!(reply.body.contains("admin.chaos"), "{}", reply.body);
    assert_eq!(restarts_of(&env, "queue/reader"), Some(0));
}

/// Snapshot of the tree, if every child is running and `path` has been restarted.
pub(crate) fn healed(env: &TestEnv, path: &str) -> Option<Snapshot> {
    let tree = env.snapshot()?;
    (tree.runs() && tree.node(path)["restarts"].as_u64()? > 0).then_some(tree)
}

fn restarts_of(env: &TestEnv, path: &str) -> Option<u64> {
    env.snapshot()?.node(path)["restarts"].as_u64()
}

pub(crate) fn exit_of<'a>(tree: &'a Snapshot, path: &str) -> &'a Value {
    &tree.node(path)["last_exit"]
}
