//! Commands of operators on the real binary, over its socket: attempts, jobs in flight, stale jobs,
//! bumps and a pause that outlives the process.

use orchestrator_harness::{Reply, TestEnv, eventually, http, original};
use serde_json::{Value, json};

use crate::site;

/// Runs `queue ARGUMENTS --json`, which must succeed.
fn answer(site: &TestEnv, arguments: &[&str]) -> Value {
    let (code, out, err) = site.cli(&[&["queue"], arguments, &["--json"]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}: {out}");
    serde_json::from_str(&out).expect("JSON")
}

/// Runs `queue ARGUMENTS`, which must succeed.
fn text(site: &TestEnv, arguments: &[&str]) -> String {
    let (code, out, err) = site.cli(&[&["queue"], arguments].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}: {out}");
    out
}

/// Values of a field of the rows.
fn column(rows: &Value, field: &str) -> Vec<Value> {
    rows.as_array().expect("rows").iter().map(|row| row[field].clone()).collect()
}

/// Starts with a file of these paths and waits until it is read.
fn started(site: &TestEnv, lines: &str) -> orchestrator_harness::Instance {
    site.write("demo.1.txt", lines);
    let instance = site.start();
    site.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    instance
}

#[test]
fn d16_attempts_are_shown_from_hand_out_to_failure() {
    let site = site();
    let _instance = started(&site, "alpha 0 1\nbravo 2 3\n");
    let waiting = answer(&site, &["show", "alpha"]);
    assert_eq!(waiting["attempts"], json!([]));
    assert_eq!(waiting["in_flight"], Value::Null);
    let group = &waiting["waiting"][0];
    assert_eq!(
        (&group["fetcher"], &group["run_started"], &group["payload"], &group["held_until"]),
        (&json!("demo"), &json!(1), &json!("0 1"), &Value::Null)
    );
    let order = column(&answer(&site, &["peek"]), "attr_path");
    let position = order.iter().position(|attr| attr == "alpha").expect("it waits") + 1;
    assert_eq!(group["position"], json!(position));

    let mut worker = site.worker();
    while worker.ready() != Reply::NoJobs {}
    let running = answer(&site, &["show", "alpha"]);
    assert_eq!(running["waiting"], json!([]));
    let job = &running["in_flight"];
    assert_eq!(job["held_until"].as_i64(), job["started"].as_i64().map(|started| started + 43_200));
    let pid = format!("(pid {} ", std::process::id());
    assert!(job["connection"].as_str().is_some_and(|name| name.contains(&pid)), "{job}");
    let in_flight = answer(&site, &["in-flight"]);
    assert_eq!(column(&in_flight, "attr_path").len(), 2);
    assert_eq!(column(&in_flight, "fetcher"), ["demo", "demo"]);
    assert!(text(&site, &["in-flight", "-n", "1"]).lines().count() == 2, "a head and a row");
    assert_eq!(text(&site, &["failed"]), "no failed attempt\n");

    worker.done("alpha", 3);
    worker.done("bravo", 0);
    assert_eq!(text(&site, &["in-flight"]), "no job is in flight\n");
    let failed = answer(&site, &["failed"]);
    assert_eq!(column(&failed, "attr_path"), ["alpha"]);
    assert_eq!(column(&failed, "exit_code"), [3]);
    assert_eq!(answer(&site, &["show", "alpha"])["attempts"], failed);
    assert_eq!(answer(&site, &["failed", "--code", "4"]), json!([]));
    assert_eq!(answer(&site, &["failed", "--code", "3", "--since", "1h"]), failed);
    assert_eq!(answer(&site, &["failed", "--since", "2999-01-01T00:00:00Z"]), json!([]));
    let url = "/v1/consoles/queue/queue_console/failed";
    let reply = http(&site.admin_socket(), "POST", url, &["Content-Type: application/json"], "{\"code\": 3}");
    assert_eq!((reply.status, reply.json()), (200, failed));
}

#[test]
fn a_database_of_the_original_is_taken_over_with_its_jobs_in_flight() {
    let site = site();
    original::create(
        &site.database_path(),
        2,
        2,
        "INSERT INTO log VALUES ('alpha', unixepoch() - 100, NULL, NULL), ('bravo', 5, 6, 9)",
    );
    let _instance = started(&site, "alpha 0 1\ncharlie 0 1\n");
    let in_flight = answer(&site, &["in-flight"]);
    assert_eq!(column(&in_flight, "attr_path"), ["alpha"]);
    assert_eq!(column(&in_flight, "connection"), [Value::Null]);
    assert!(column(&in_flight, "seconds")[0].as_i64().is_some_and(|seconds| seconds >= 100));
    let shown = answer(&site, &["show", "alpha"]);
    let group = &shown["waiting"][0];
    assert_eq!((&group["position"], &group["held_until"]), (&Value::Null, &shown["in_flight"]["held_until"]));
    let bravo = answer(&site, &["show", "bravo"])["attempts"][0].clone();
    assert_eq!(
        (&bravo["started"], &bravo["finished"], &bravo["exit_code"]),
        (&json!(5), &json!(6), &json!(9))
    );

    let mut worker = site.worker();
    worker.done("alpha", 7);
    let mut alpha = answer(&site, &["show", "alpha"])["attempts"].clone();
    assert_eq!(column(&alpha, "exit_code"), [7]);
    assert_eq!(column(&alpha, "fetcher"), [Value::Null], "another program handed it out");
    assert_eq!(answer(&site, &["failed"]), json!([alpha[0], bravo]));

    // A later attempt keeps the end of the one before.
    while worker.ready() != Reply::NoJobs {}
    assert_eq!(answer(&site, &["show", "alpha"])["attempts"][1], alpha[0].take());
    worker.done("alpha", 8);
    let alpha = answer(&site, &["show", "alpha"])["attempts"].clone();
    assert_eq!(
        (column(&alpha, "exit_code"), &alpha[0]["fetcher"]),
        (vec![json!(8), json!(7)], &json!("demo"))
    );
    assert_eq!(answer(&site, &["failed"]), json!([alpha[0], alpha[1], bravo]));
}

#[test]
fn the_newest_attempts_are_kept_within_the_limit() {
    let site = site().set("queue.attempts=3");
    let instance = started(&site, "a 0\nb 0\nc 0\nd 0\ne 0\n");
    let mut worker = site.worker();
    let mut reply = worker.ready();
    while reply != Reply::NoJobs {
        reply = worker.done(reply.attr_path(), 1);
    }
    assert_eq!(site.database().rows("SELECT count(*) FROM orchestrator_attempt"), ["3"]);
    let connections = column(&answer(&site, &["failed"]), "connection");
    assert_eq!(connections.iter().filter(|name| name.is_string()).count(), 3, "the log has the ends of all");
    assert!(instance.terminate().success());
    let without = site.set("queue.attempts=0");
    let _instance = without.start();
    without.write("demo.2.txt", "a 1\n");
    without.database().expect("SELECT count(*) FROM queue WHERE fetcher_run_started = 2", &["1"]);
    assert_eq!(without.worker().ready().attr_path(), "a");
    assert_eq!(
        column(&answer(&without, &["failed"]), "fetcher"),
        [Value::Null, Value::Null, Value::Null, Value::Null]
    );
    assert_eq!(without.database().rows("SELECT count(*) FROM orchestrator_attempt"), ["0"]);
    assert_eq!(column(&answer(&without, &["in-flight"]), "connection"), [Value::Null]);
}

#[test]
fn stale_lists_jobs_that_were_not_tried_for_long() {
    let site = site();
    let _instance = started(&site, "alpha 0\nbravo 0\ncharlie 0\n");
    assert_eq!(text(&site, &["stale"]), "every listed job was tried\n");
    site.database().execute(
        "INSERT INTO log VALUES ('alpha', unixepoch() - 40 * 86400, unixepoch(), 0),
             ('bravo', unixepoch() - 20 * 86400, unixepoch(), 0), ('unlisted', 5, 6, 0)",
    );
    assert_eq!(column(&answer(&site, &["stale"]), "attr_path"), ["alpha"]);
    assert_eq!(column(&answer(&site, &["stale", "--days", "10"]), "attr_path"), ["alpha", "bravo"]);
    site.database().execute("UPDATE orchestrator_run SET added = unixepoch() - 31 * 86400");
    let stale = answer(&site, &["stale", "--days", "30"]);
    assert_eq!(column(&stale, "attr_path"), ["alpha", "charlie"]);
    assert_eq!(column(&stale, "last_started")[1], Value::Null);
    assert_eq!(column(&answer(&site, &["stale", "-n", "1"]), "attr_path"), ["alpha"]);
}

#[test]
fn a_bumped_job_is_next_once_and_after_a_restart() {
    let site = site();
    let instance = started(&site, "a 0\nb 0\nc 0\nd 0\n");
    let order: Vec<String> = column(&answer(&site, &["peek"]), "attr_path")
        .iter()
        .map(|attr| attr.as_str().expect("a text").to_owned())
        .collect();
    let last = &order[3];
    assert_eq!(text(&site, &["bump", last]), format!("{last} is next\n"));
    assert_eq!(answer(&site, &["show", last])["waiting"][0]["position"], json!(1));
    assert_eq!(answer(&site, &["show", &order[0]])["waiting"][0]["position"], json!(2));
    assert_eq!(column(&answer(&site, &["peek", "-n", "2"]), "attr_path"), [last.as_str(), &order[0]]);
    instance.kill_nine();
    let _instance = site.start();
    let mut worker = site.worker();
    // A reply that nobody reads does not use the bump up.
    let mut gone = site.worker();
    gone.send(b"READY\n").expect("send READY");
    site.database().expect("SELECT delivered > 0 FROM orchestrator_handout", &["1"]);
    drop(gone);
    site.database().expect("SELECT count(*) FROM log", &["0"]);
    assert_eq!(worker.ready().attr_path(), last);
    assert_eq!(worker.done(last, 0).attr_path(), order[0]);
    let (code, _, err) = site.cli(&["queue", "bump", last]);
    assert!(code != 0 && err.contains("no such job waits"), "{code}: {err}");
}

#[test]
fn a_pause_outlives_the_process() {
    let site = site();
    let instance = started(&site, "alpha 0 1\n");
    assert_eq!(text(&site, &["pause"]), "paused: no job is handed out\n");
    instance.kill_nine();
    let instance = site.start();
    assert_eq!(site.worker().ready(), Reply::NoJobs);
    let (_, tree, _) = site.cli(&["tree", "queue/queue_console"]);
    assert!(tree.contains("an operator paused hand-outs"), "{tree}");
    assert_eq!(answer(&site, &["stats"])["paused"], json!(true));
    assert_eq!(text(&site, &["resume"]), "resumed: jobs are handed out\n");
    assert!(instance.terminate().success());
    let _instance = site.start();
    assert_eq!(site.worker().ready().attr_path(), "alpha");
}

#[test]
fn a_pause_with_an_end_is_shown_and_ends_by_itself() {
    let site = site();
    let instance = started(&site, "alpha 0 1\n");
    let (code, _, err) = site.cli(&["queue", "pause", "--until", "soon"]);
    assert!(code == 2 && err.contains("write a duration (30m, 1d)"), "{code}: {err}");
    for (path, verb) in
        [("queue/inotify", &["pause", "queue/inotify"]), ("queue/queue_console", &["queue", "pause"])]
    {
        let pause = |span: &str| {
            let (code, _, err) = site.cli(&[&verb[..], &["--until", span, "--reason", "lunch"]].concat());
            assert_eq!(code, 0, "{err}");
        };
        pause("1s");
        eventually("the end of the pause", || !site.cli(&["tree", path]).1.contains(" until 20"));
        pause("2h");
        let (_, why, _) = site.cli(&["why", path]);
        assert!(
            why.contains("paused") && why.contains(" until 20") && why.contains("lunch"),
            "{path}: {why}"
        );
        assert!(site.cli(&["tree", path]).1.contains(" until 20"), "{path}");
    }
    instance.kill_nine();
    let _instance = site.start();
    assert_eq!(site.worker().ready(), Reply::NoJobs);
    assert!(site.cli(&["tree", "queue/queue_console"]).1.contains("hand-outs until 20"));
    assert!(text(&site, &["pause", "--until", "1s"]).starts_with("paused until 20"));
    let mut worker = site.worker();
    eventually("hand-outs to be resumed", || matches!(worker.ready(), Reply::Job { .. }));
}

#[test]
fn metrics_tell_exit_codes_durations_and_waiting_jobs() {
    let site = site();
    let instance = started(&site, "a 0\nb 0\nc 0\nd 0\n");
    let mut worker = site.worker();
    let first = worker.ready();
    let second = worker.done(first.attr_path(), 0);
    let third = worker.done(second.attr_path(), 124);
    worker.done(third.attr_path(), -7);
    let metrics = || http(&site.admin_socket(), "GET", "/metrics", &[], "").body;
    let store = "path=\"orchestrator/queue/queue_store\"";
    let housekeeper = "path=\"orchestrator/queue/housekeeper\"";
    for line in [
        format!("orchestrator_queue_done_jobs_total{{{store},exit_code=\"0\"}} 1"),
        format!("orchestrator_queue_done_jobs_total{{{store},exit_code=\"124\"}} 1"),
        format!("orchestrator_queue_done_jobs_total{{{store},exit_code=\"other\"}} 1"),
        format!("orchestrator_queue_job_duration_seconds_count{{{store},result=\"success\"}} 1"),
        format!("orchestrator_queue_job_duration_seconds_count{{{store},result=\"failure\"}} 2"),
    ] {
        // A job is counted once its worker has been answered.
        eventually(&line, || metrics().contains(&line));
    }
    // The gauges are counted at intervals; a new process counts at its start.
    assert!(instance.terminate().success());
    let _instance = site.start();
    eventually("the gauges", || {
        let shown = metrics();
        let value = |name: &str| {
            let start = format!("orchestrator_queue_{name}{{{housekeeper}}} ");
            shown.lines().find_map(|line| line.strip_prefix(&start)).and_then(|value| value.parse().ok())
        };
        let last_done: Option<u64> = value("last_done_timestamp_seconds");
        last_done.is_some_and(|time| time > 1_700_000_000)
            && value("in_flight_jobs") == Some(1)
            && value("waiting_jobs") == Some(0)
            && value("oldest_waiting_seconds") == Some(0)
    });
}

/// A pattern that almost matches everywhere, over paths as long as they may be.
#[test]
fn a_pattern_of_many_stars_is_answered_for_long_paths() {
    let site = site();
    let lines: String = (0..8).map(|i| format!("{}{i} 0\n", "a".repeat(60_000))).collect();
    let _instance = started(&site, &lines);
    let pattern = format!("*{}b", "a".repeat(990));
    eventually("an answer", || site.cli(&["queue", "peek", "--match", &pattern]).0 == 0);
    assert_eq!(
        text(&site, &["peek", "--match", &format!("{}7", "*a".repeat(400)), "--json"])
            .matches("attr_path")
            .count(),
        1
    );
}

#[test]
fn jobs_of_a_pattern_are_bumped_as_far_as_there_is_room() {
    let site = site();
    let lines: String = (0..40).map(|i| format!("py{i} 0\nother{i} 0\n")).collect();
    let _instance = started(&site, &lines);
    let matching = column(&answer(&site, &["peek", "-n", "40", "--match", "py*"]), "attr_path");
    let bumped = answer(&site, &["bump-all", "py*"]);
    assert_eq!((&bumped["bumped"], &bumped["full"]), (&json!(matching[..32]), &json!(true)));
    assert_eq!(answer(&site, &["bump-all", "py*"]), bumped, "no path is bumped twice");
    assert_eq!(column(&answer(&site, &["peek", "-n", "32"]), "attr_path"), matching[..32]);
    assert_eq!(text(&site, &["bump-all", "rust*"]), "no waiting job matches\n");
    assert!(text(&site, &["bump-all", "other*"]).starts_with("no more jobs can be bumped"));
}

#[test]
fn jobs_in_flight_are_requeued_by_pattern_and_time() {
    let site = site();
    let _instance = started(&site, "a1 0\na2 0\nb1 0\n");
    let mut worker = site.worker();
    while worker.ready() != Reply::NoJobs {}
    let nothing = "nothing to requeue: no job of this filter was handed out\n";
    assert_eq!(
        text(&site, &["requeue-all", "in-flight", "--until", "1h"]),
        nothing,
        "handed out an hour ago"
    );
    assert_eq!(text(&site, &["requeue-all", "failed"]), nothing);
    assert_eq!(text(&site, &["requeue-all", "in-flight", "--match", "a?", "--since", "1h"]), "2 requeued\n");
    assert_eq!(column(&answer(&site, &["in-flight"]), "attr_path"), ["b1"]);
    let next = |worker: &mut orchestrator_harness::Worker| worker.ready().attr_path().to_owned();
    let mut again = [next(&mut worker), next(&mut worker)];
    again.sort();
    assert_eq!(again, ["a1", "a2"]);
    let (code, _, err) = site.cli(&["queue", "requeue-all", "failed", "--match", &"x".repeat(1_001)]);
    assert!(code == 2 && err.contains("shorten it"), "{code}: {err}");
}
