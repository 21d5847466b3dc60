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
    const FORMER: [&str; 5] = ["f0000000a", "f0000000b", "f0000000c", "f0000000d", "farm_east"];
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "dropped", 1);
    let instances = queue.start();
    let rows = |sql: &str| queue.rows(server, sql);
    // An instance that runs with the second one.
    rows("INSERT INTO instance VALUES ('long', 1000, 'h', 's', now() + interval '1 hour', false)");
    rows("INSERT INTO program VALUES ('long', 1000, 'orchestrator_queue_f0000000b')");
    for (name, age) in FORMER.iter().zip(["2 days", "2 days", "1 hour", "2 days", "2 days"]) {
        let schema = format!("orchestrator_queue_{name}");
        // The fourth one has a table.
        let table =
            if *name == FORMER[3] { format!("CREATE TABLE {schema}.attempt ()") } else { String::new() };
        rows(&format!(
            "CREATE SCHEMA {schema}; {table}; INSERT INTO function_schema VALUES ('{schema}', now() - interval '{age}')"
        ));
    }
    rows(&format!("{}; SELECT drop_former_functions()", queue.functions(server)));
    let left = rows("SELECT substr(nspname, 20) FROM pg_namespace WHERE nspname ~ '^orchestrator_queue_f'");
    let left: BTreeSet<&str> = left.iter().map(String::as_str).collect();
    let own = queue.functions(server).split(['_', ',']).nth(3).expect("a schema").to_owned();
    assert_eq!(left, BTreeSet::from([FORMER[1], FORMER[2], FORMER[3], FORMER[4], &own]));
    stop(instances);
}

#[test]
fn functions_that_are_gone_are_created_again_but_not_in_a_schema_of_another_role() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "gone", 1);
    let site: &TestEnv = &queue.sites[0];
    site.write("f.1.txt", "a 0\nb 0\n");
    let instances = queue.start();
    let mut worker = site.worker();
    eventually("a job", || matches!(worker.ready(), Reply::Job { .. }));
    let functions = queue.functions(server);
    queue.rows(server, &format!("{functions}; DROP FUNCTION handed_out CASCADE"));
    eventually("another job", || matches!(worker.ready(), Reply::Job { .. }));

    let schema = functions.split([' ', ',']).nth(3).expect("a schema");
    let of_another = format!(
        "DROP SCHEMA {schema} CASCADE; CREATE ROLE stranger; CREATE SCHEMA {schema} AUTHORIZATION stranger"
    );
    queue.rows(server, &of_another);
    site.append("f.1.txt", "c 0\n");
    site.first_cause("queue", &format!("the schema {schema} belongs to another role than the tables"));
    queue.rows(server, &format!("DROP SCHEMA {schema}"));
    eventually("the last job", || matches!(worker.ready(), Reply::Job { .. }));
    stop(instances);
}
