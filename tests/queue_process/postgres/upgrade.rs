//! Programs of two versions on one queue: each has functions of its own.

use std::collections::BTreeSet;

use orchestrator_harness::{Postgres, Reply, TestEnv, eventually};

use super::{SharedQueue, await_up, stop};

/// Database that a program of version 1 has filled.
const VERSION_1: &str = include_str!("version_1.sql");
/// Transaction of a program of version 1: its functions are in the schema of the tables.
const FORMER: &str = "SET search_path = orchestrator_queue; BEGIN; SELECT enter('former', incarnation) FROM instance WHERE instance = 'former'";

#[test]
fn an_instance_of_version_1_works_beside_this_program() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "upgraded", 1).set("queue.postgres.instance=new");
    let site: &TestEnv = &queue.sites[0];
    let rows = |sql: &str| queue.rows(server, sql);
    let former = |sql: &str| {
        let text = server.script(&queue.dsn, &format!("{FORMER}; {sql}; SELECT before_commit(); COMMIT"));
        text.trim().to_owned()
    };
    server.script(&queue.dsn, VERSION_1);
    rows("SELECT take_place('former', 'host', 'socket', interval '1 hour')");
    let instance = site.start();
    await_up(site, "queue/queue_store");

    let hand_out =
        "SELECT attr_path FROM instance, hand_out(ARRAY['1'], incarnation << 32, 1, 43200, true, NULL)
        WHERE instance = 'former'";
    let first = former(hand_out);
    let mut worker = site.worker();
    let mut given = BTreeSet::from([first.clone()]);
    eventually("the rest of the jobs", || {
        if let Reply::Job { attr_path, .. } = worker.ready() {
            assert!(given.insert(attr_path), "a job is given twice");
        }
        given.len() == 3
    });
    assert_eq!(given.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(former(hand_out), "", "nothing is left");
    assert_eq!(worker.done(&first, 0), Reply::NoJobs, "a job of the former program");
    former("SELECT count(*) FROM end_jobs(ARRAY['e'], ARRAY[4::bigint], 2)");
    let ends =
        format!("SELECT exit_code FROM log WHERE attr_path IN ('d', 'e', '{first}') ORDER BY exit_code");
    assert_eq!(rows(&ends), ["0", "3", "4"]);
    assert_eq!(rows("SELECT value FROM property WHERE name = 'version'"), ["1"], "it may come back");
    stop(vec![instance]);
}

#[test]
fn functions_that_no_instance_uses_are_dropped_after_a_day() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "dropped", 1);
    let instances = queue.start();
    let former =
        ["orchestrator_queue_f0000000a", "orchestrator_queue_f0000000b", "orchestrator_queue_f0000000c"];
    // An instance that runs with the second one.
    queue.rows(
        server,
        "INSERT INTO instance VALUES ('long', 1000, 'h', 's', now() + interval '1 hour', false);
         INSERT INTO incarnation VALUES (1000, 'long', 'orchestrator_queue_f0000000b')",
    );
    for (name, age) in former.iter().zip(["2 days", "2 days", "1 hour"]) {
        queue.rows(
            server,
            &format!("CREATE SCHEMA {name}; INSERT INTO function_schema VALUES ('{name}', now() - interval '{age}')"),
        );
    }
    let of_others =
        "CREATE SCHEMA others; INSERT INTO function_schema VALUES ('others', now() - interval '2 days')";
    queue.rows(server, of_others);
    let own = queue.rows(server, "SELECT name FROM function_schema WHERE used > now() - interval '1 minute'");
    let [own] = own.as_slice() else { panic!("{own:?}") };
    queue.rows(
        server,
        &format!("SET search_path = {own}, orchestrator_queue; SELECT drop_former_functions()"),
    );
    let left = queue.rows(
        server,
        "SELECT nspname FROM pg_namespace WHERE nspname ~ '_f[0-9a-f]{8}$' OR nspname = 'others'",
    );
    let expected = BTreeSet::from([former[1], former[2], "others", own]);
    assert_eq!(left.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    stop(instances);
}
