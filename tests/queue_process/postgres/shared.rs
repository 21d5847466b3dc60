//! Two instances answer as one queue.

use std::collections::BTreeSet;

use orchestrator_harness::{Postgres, Reply, TestEnv, Worker, eventually};
use serde_json::Value;

use super::{SharedQueue, stop};

/// Runs `queue ARGUMENTS --json`, which must succeed.
pub(super) fn answer(site: &TestEnv, arguments: &[&str]) -> Value {
    let (code, out, err) = site.cli(&[&["queue"], arguments, &["--json"]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{arguments:?}: {out}");
    serde_json::from_str(&out).expect("JSON")
}

/// Takes jobs in turn until both workers get none.
fn take_all(workers: &mut [Worker]) -> BTreeSet<String> {
    let mut jobs = BTreeSet::new();
    loop {
        let before = jobs.len();
        for worker in &mut *workers {
            if let Reply::Job { attr_path, .. } = worker.ready() {
                assert!(jobs.insert(attr_path), "handed out twice");
            }
        }
        if jobs.len() == before {
            return jobs;
        }
    }
}

#[test]
fn two_instances_share_jobs_ends_limits_and_answers() {
    let server = Postgres::shared();
    let queue =
        SharedQueue::new(server, "shared", 2).set("queue.limit=[{ match = \"slow*\", in_flight = 1 }]");
    let [left, right] = &queue.sites[..] else { unreachable!() };
    left.write("left.1.txt", "a 0\nb 0\nslow1 0\n");
    right.write("right.1.txt", "c 0\nd 0\nslow2 0\n");
    let instances = queue.start();
    eventually("both files to be read", || {
        queue.rows(server, "SELECT count(*) FROM fetcher_runs WHERE is_complete = 1") == ["2"]
    });
    assert_eq!(answer(left, &["peek"]), answer(right, &["peek"]));

    let mut workers = [left.worker(), right.worker()];
    let taken = take_all(&mut workers);
    assert_eq!(taken.len(), 5, "one job is held by the limit: {taken:?}");
    for site in &queue.sites {
        assert_eq!(answer(site, &["in-flight"]).as_array().map(Vec::len), Some(5));
        assert_eq!(answer(site, &["stats"])["in_flight"], 5);
        let files = answer(site, &["ls"]);
        let fetchers: BTreeSet<_> =
            files.as_array().into_iter().flatten().filter_map(|row| row["fetcher"].as_str()).collect();
        assert_eq!(fetchers.len(), 2, "{files}");
        assert!(answer(site, &["show", "c"])["in_flight"]["started"].is_i64());
    }

    // The end of a job counts wherever a worker reports it, and frees the place of its limit everywhere.
    let slow = taken.iter().find(|job| job.starts_with("slow")).expect("one of the two");
    let [at_left, at_right] = &mut workers;
    assert_eq!(at_left.done("c", 0), Reply::NoJobs);
    assert_eq!(at_right.done("a", 4), Reply::NoJobs);
    let next = at_right.done(slow, 0);
    assert!(next.attr_path().starts_with("slow") && next.attr_path() != slow, "{next:?}");
    assert_eq!(answer(left, &["failed"]), answer(right, &["failed"]));
    assert_eq!(answer(left, &["failed"])[0]["attr_path"], "a");
    for site in &queue.sites {
        assert_eq!(answer(site, &["stats"])["in_flight"], 3);
    }
    stop(instances);
}

#[test]
fn a_pause_at_one_instance_holds_at_the_other() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "paused", 2);
    let [left, right] = &queue.sites[..] else { unreachable!() };
    left.write("f.1.txt", "a 0\nb 0\n");
    let instances = queue.start();
    eventually("the file to be read", || {
        queue.rows(server, "SELECT count(*) FROM fetcher_runs WHERE is_complete = 1") == ["1"]
    });
    assert_eq!(answer(left, &["pause"])["paused"], true);
    let mut worker = right.worker();
    assert_eq!(worker.ready(), Reply::NoJobs, "the pause holds at once");
    eventually("the pause to be shown", || {
        right.cli(&["tree", "queue/queue_console"]).1.contains("paused hand-outs")
    });
    assert_eq!(answer(right, &["resume"])["paused"], false);
    assert!(matches!(worker.ready(), Reply::Job { .. }));
    let mut worker = left.worker();
    eventually("the other to resume", || matches!(worker.ready(), Reply::Job { .. }));
    stop(instances);
}

#[test]
fn a_transaction_that_a_deadlock_ended_is_repeated_without_an_outage() {
    // The end of a job locks its row of `in_flight`, then that of `log`. The instance looks for a deadlock
    // after a second, this session later.
    const OTHER_WAY_ROUND: &str = "SET deadlock_timeout = '1min'; SET search_path = orchestrator_queue; BEGIN;
        SELECT 1 FROM log FOR UPDATE;
        DO $$ BEGIN
            WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))) LOOP
                PERFORM pg_sleep(0.01), pg_stat_clear_snapshot();
            END LOOP;
        END $$;
        SELECT 1 FROM in_flight FOR UPDATE; COMMIT";
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "deadlock", 1);
    let site = &queue.sites[0];
    site.write("f.1.txt", "a 0\n");
    let instances = queue.start();
    let mut worker = site.worker();
    eventually("a job", || worker.ready() != Reply::NoJobs);
    std::thread::scope(|scope| {
        scope.spawn(|| server.script(&queue.dsn, OTHER_WAY_ROUND));
        let asleep =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = 'deadlock' AND wait_event = 'PgSleep'";
        eventually("the row to be locked", || server.script(&queue.dsn, asleep) == "1");
        assert_eq!(worker.done("a", 0), Reply::NoJobs);
    });
    assert_eq!(queue.rows(server, "SELECT exit_code FROM log WHERE finished IS NOT NULL"), ["0"]);
    assert!(site.metric("queue/queue_store", "retried") >= 1);
    assert!(!site.log().contains("link down"), "{}", site.log());
    stop(instances);
}
