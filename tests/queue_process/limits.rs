//! Limits of jobs in flight on the real binary (CONTRACT QO09).

use std::{collections::BTreeSet, fs};

use orchestrator_harness::{Instance, Reply, TestEnv, Worker, wait_for};
use serde_json::Value;

use crate::site;

const LIMITS: &str = "[[queue.limit]]\nmatch = \"python3*\"\nin_flight = 2\n\n\
    [[queue.limit]]\nfetcher = \"slow\"\nin_flight = 1\n";

/// Starts with two limits and waits until `rows` rows are read.
fn started(site: &TestEnv, rows: usize) -> Instance {
    let file = site.path().join("limits.toml");
    fs::write(&file, LIMITS).expect("write the configuration");
    let mut command = site.command();
    command.arg("--config").arg(file);
    let instance = Instance::spawn(command);
    instance.await_service(site);
    site.database().expect("SELECT count(*) FROM queue", &[&rows.to_string()]);
    instance
}

fn take_all(worker: &mut Worker) -> BTreeSet<String> {
    let mut jobs = BTreeSet::new();
    while let Reply::Job { attr_path, .. } = worker.ready() {
        assert!(jobs.insert(attr_path), "handed out twice");
    }
    jobs
}

fn of(jobs: &BTreeSet<String>, start: &str) -> usize {
    jobs.iter().filter(|job| job.starts_with(start)).count()
}

#[test]
fn o09_limits_hold_across_workers_and_restarts() {
    let site = site();
    site.write("fast.1.txt", "python3Packages.a 0\npython3Packages.b 0\npython3Packages.c 0\nhello 0\n");
    site.write("slow.1.txt", "slow1 0\nslow2 0\n");
    let instance = started(&site, 6);
    let first = take_all(&mut site.worker());
    assert_eq!((of(&first, "python3"), of(&first, "slow"), first.len()), (2, 1, 4), "{first:?}");
    let (_, shown, _) = site.cli(&["queue", "peek"]);
    assert_eq!(shown, "no job is waiting\n", "peek shows what can be handed out");
    let cause = wait_for("the reason", || {
        let (_, text, _) = site.cli(&["why", "queue", "--json"]);
        let answer: Value = serde_json::from_str(&text).ok()?;
        let causes = &answer["subsystems"][0]["causes"];
        causes[0]["kind"].as_str().filter(|kind| *kind == "jobs_limited").map(|_| causes[0].to_string())
    });
    assert!(cause.contains("in_flight = 2") || cause.contains("in_flight = 1"), "{cause}");
    assert!(cause.contains("orchestrator queue in-flight"), "{cause}");
    instance.kill_nine();

    let _instance = started(&site, 6);
    let mut worker = site.worker();
    assert_eq!(worker.ready(), Reply::NoJobs, "jobs in flight count after a restart");
    let python = first.iter().find(|job| job.starts_with("python3")).expect("one of the two");
    let next = worker.done(python, 0);
    assert!(next.attr_path().starts_with("python3") && !first.contains(next.attr_path()), "{next:?}");
    assert_eq!(worker.done("hello", 0), Reply::NoJobs, "the other fetcher's limit is not affected");
    let slow = first.iter().find(|job| job.starts_with("slow")).expect("one of the two");
    assert!(worker.done(slow, 1).attr_path().starts_with("slow"));
    assert_eq!(worker.ready(), Reply::NoJobs);
}

#[test]
fn o09_the_original_continues_without_limits() {
    let site = site();
    site.write("fast.1.txt", "python3Packages.a 0\npython3Packages.b 0\npython3Packages.c 0\n");
    let instance = started(&site, 3);
    assert_eq!(take_all(&mut site.worker()).len(), 2);
    let foreign = site.database();
    foreign.execute(
        "UPDATE log SET finished = started, exit_code = 0;
         INSERT INTO queue VALUES (1, 1, 'python3Packages.d', '0', 0, NULL, 5)",
    );
    // Rows and ends of another program count at the next request.
    assert_eq!(take_all(&mut site.worker()).len(), 2);
    assert!(instance.terminate().success());
    assert!(orchestrator_harness::assert_valid_database(&site.database_path()));
    let _instance = site.start();
    assert_eq!(site.worker().ready(), Reply::NoJobs, "every job was handed out");
}
