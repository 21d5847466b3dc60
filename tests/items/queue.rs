//! Jobs of the queue on SQLite.

use std::fs;

use orchestrator_harness::{Instance, Reply, TestEnv, eventually};
use serde_json::json;

use crate::{BINARY, asks};

/// Starts with a file of these lines, and waits until it is read.
fn started(env: &TestEnv, lines: &str) -> Instance {
    env.write("demo.1.txt", lines);
    let instance = env.start();
    env.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    instance
}

#[test]
fn a_job_in_order_has_its_position_and_waits_for_workers() {
    let env = TestEnv::new(BINARY);
    let _instance = started(&env, "alpha 0\nbravo 0\n");
    let no_worker = ["waits at position", "2 jobs wait, no worker has asked", "start workers at"];
    let answer = asks(&env, "a job waits, and no worker has asked", "alpha", 1, &no_worker);
    assert_eq!(
        answer["found"][0]["causes"][0]["kind"], "no_worker",
        "what holds up all comes first: {answer}"
    );
    let first = env.worker().ready();
    let last = if first.attr_path() == "alpha" { "bravo" } else { "alpha" };
    let in_order = ["waits at position 1 in run 1 of demo", "next chance: unknown, fewer than 10 jobs"];
    let answer = asks(&env, "a job waits in order", last, 0, &in_order);
    assert_eq!(answer["found"][0]["progress"], "waits", "{answer}");
}

#[test]
fn the_rate_of_the_last_hour_gives_the_time_of_the_next_chance() {
    let env = TestEnv::new(BINARY);
    let lines: String = (0..20).map(|i| format!("package{i} 0\n")).collect();
    let _instance = started(&env, &lines);
    let mut worker = env.worker();
    let mut reply = worker.ready();
    for _ in 0..12 {
        reply = worker.done(reply.attr_path(), 0);
    }
    let (_, next, _) = env.cli(&["queue", "peek", "--json"]);
    let next: serde_json::Value = serde_json::from_str(&next).expect("JSON");
    let third = next[2]["attr_path"].as_str().expect("seven jobs wait");
    let rated = [
        "waits at position 3",
        "2 jobs are handed out before it",
        "at the rate of the last hour, 3 jobs take",
    ];
    let answer = asks(&env, "a job waits, and the rate of the last hour is known", third, 0, &rated);
    assert_eq!(answer["found"][0]["next"]["kind"], "at", "{answer}");
}

#[test]
fn a_job_in_flight_names_its_worker_also_once_the_connection_is_gone() {
    let env = TestEnv::new(BINARY);
    let _instance = started(&env, "alpha 0\n");
    let mut worker = env.worker();
    assert_eq!(worker.ready().attr_path(), "alpha");
    let pid = format!("(pid {} ", std::process::id());
    asks(
        &env,
        "a worker has the job",
        "alpha",
        0,
        &["in progress: the worker on connection ", &pid, "its connection is open"],
    );
    drop(worker);
    asks(
        &env,
        "the worker's connection is gone",
        "alpha",
        0,
        &["its connection is closed", "no other row of the path is handed out until"],
    );
    env.write("demo.2.txt", "alpha 1\n");
    let held = [
        "waits in run 2 of demo: the path is held",
        "its hold ends at",
        "do: orchestrator queue requeue alpha",
        "next chance: not before",
    ];
    asks(&env, "the path of a newer row is held", "alpha", 1, &held);
    let (code, _, err) = env.cli(&["queue", "requeue", "alpha"]);
    assert_eq!(code, 0, "{err}");
    asks(&env, "a job waits in order", "alpha", 0, &["waits at position 1 in run 2 of demo"]);
}

#[test]
fn a_full_limit_names_the_jobs_that_fill_it() {
    let env = TestEnv::new(BINARY);
    let file = env.path().join("limits.toml");
    let limits = "[[queue.limit]]\nmatch = \"python*\"\nin_flight = 1\n[[queue.limit]]\nmatch = \"never*\"\nin_flight = 0\n";
    fs::write(&file, limits).expect("write the configuration");
    env.write("demo.1.txt", "python.a 0\npython.b 0\nnever.a 0\n");
    let mut command = env.command();
    command.arg("--config").arg(file);
    let instance = Instance::spawn(command);
    instance.await_service(&env);
    env.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    let first = env.worker().ready();
    let second = if first.attr_path() == "python.a" { "python.b" } else { "python.a" };
    let full =
        ["the limit match = \"python*\" is full: 1 of 1 in flight", first.attr_path(), "raise in_flight"];
    asks(&env, "its limit is full", second, 1, &full);
    asks(
        &env,
        "its limit allows no job",
        "never.a",
        1,
        &["has in_flight = 0", "next chance: unknown, the limit allows no job"],
    );
}

#[test]
fn a_pause_tells_who_why_and_until() {
    let env = TestEnv::new(BINARY);
    let _instance = started(&env, "alpha 0\n");
    let (code, _, err) = env.cli(&["queue", "pause", "--until", "30m", "--reason", "new disk"]);
    assert_eq!(code, 0, "{err}");
    let paused = ["an operator paused hand-outs until", "new disk", "do: orchestrator queue resume"];
    let answer = asks(&env, "an operator paused the queue of a job", "alpha", 1, &paused);
    assert_eq!(answer["found"][0]["next"]["kind"], "unknown", "{answer}");
}

#[test]
fn an_ended_job_has_its_results() {
    let env = TestEnv::new(BINARY);
    let _instance = started(&env, "alpha 0\n");
    for run in 2..=4 {
        let mut worker = env.worker();
        assert_eq!(worker.ready().attr_path(), "alpha");
        assert_eq!(worker.done("alpha", 124), Reply::NoJobs);
        env.write(&format!("demo.{run}.txt"), "alpha 0\n");
        eventually("the next run", || env.cli(&["queue", "peek"]).1.contains("alpha"));
    }
    let mut worker = env.worker();
    worker.ready();
    worker.done("alpha", 124);
    asks(
        &env,
        "the job failed again and again",
        "alpha",
        0,
        &["failed 4 times in a row with exit code 124", "the worker on connection"],
    );
    env.write("demo.5.txt", "alpha 0\n");
    eventually("the next run", || env.cli(&["queue", "peek"]).1.contains("alpha"));
    worker.ready();
    worker.done("alpha", 0);
    let done =
        asks(&env, "the job is done", "alpha", 0, &["done by the worker on connection", "exit code 124 at"]);
    assert_eq!((&done["found"][0]["progress"], &done["found"][0]["next"]), (&json!("ended"), &json!(null)));
}

#[test]
fn an_unknown_path_has_the_nearest_names_and_what_holds_back_its_file() {
    let env = TestEnv::new(BINARY);
    let instance = started(&env, "python3Packages.requests 0\n");
    let unknown = [
        "nothing is known of python3Packages.request\n",
        "did you mean queue/python3Packages.requests?",
        "searched 1 fetchers: demo",
    ];
    let answer = asks(&env, "no file lists the path", "python3Packages.request", 2, &unknown);
    assert_eq!(answer["nearest"], json!(["queue/python3Packages.requests"]));
    env.remove("demo.1.txt");
    asks(
        &env,
        "its run was deleted",
        "python3Packages.requests",
        2,
        &["nothing is known of python3Packages.requests"],
    );
    env.write("late.txt", "python3Packages.flask 0\n");
    let misnamed =
        ["nothing is known of python3Packages.flask", "files with other names: 1, such as late.txt"];
    asks(&env, "its file is not read", "python3Packages.flask", 2, &misnamed);
    drop(instance);
}

#[test]
fn a_stopped_subsystem_gives_no_answer_and_says_why() {
    let env = TestEnv::new(BINARY);
    let _instance = started(&env, "alpha 0\n");
    let (code, _, err) = env.cli(&["stop", "queue", "--reason", "upgrade"]);
    assert_eq!(code, 0, "{err}");
    let stopped =
        ["queue/queue_console gave no answer", "stopped by an operator", "do: orchestrator start queue"];
    asks(&env, "its subsystem is stopped", "alpha", 1, &stopped);
}
