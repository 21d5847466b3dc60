//! A database of schema version 1: a start replaces its functions, unless an instance of the former program
//! uses them.

use std::collections::BTreeSet;

use orchestrator_harness::{Postgres, Reply, TestEnv, eventually};

use super::{SharedQueue, await_up, stop};

/// Database that a program of version 1 has filled.
const VERSION_1: &str = include_str!("version_1.sql");

#[test]
fn a_queue_of_version_1_goes_on_once_no_instance_of_the_former_program_lives() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "upgraded", 1).set("queue.postgres.instance=new");
    let site: &TestEnv = &queue.sites[0];
    server.script(&queue.dsn, VERSION_1);
    let rows = |sql: &str| queue.rows(server, sql);
    rows("UPDATE instance SET lease_until = now() + interval '1 hour', is_locked = false");
    let instance = site.start();
    site.first_cause("queue", "instances of the former program use them: stop left on host vm");
    assert_eq!(rows("SELECT value FROM property WHERE name = 'version'"), ["1"]);

    // Its lease goes on, but no session has its lock: the process has ended.
    rows("UPDATE instance SET is_locked = true WHERE instance = 'left'");
    await_up(site, "queue/queue_store");
    assert_eq!(rows("SELECT value FROM property WHERE name = 'version'"), ["2"]);
    let mut worker = site.worker();
    let mut given: BTreeSet<String> = BTreeSet::new();
    eventually("the rest of the jobs", || {
        if let Reply::Job { attr_path, .. } = worker.ready() {
            given.insert(attr_path);
        }
        given.len() == 3
    });
    assert_eq!(given.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(worker.done("e", 4), Reply::NoJobs, "a job that the former program has handed out");
    assert_eq!(
        rows("SELECT exit_code FROM log WHERE attr_path IN ('d', 'e') ORDER BY attr_path"),
        ["3", "4"]
    );
    stop(vec![instance]);
}
