//! Lines that a database refuses, locks and notifications of other roles, and NULLs in its tables stop no
//! instance.

use std::thread;

use orchestrator_harness::{OpenSession, Postgres, Reply, TestEnv, eventually};

use super::{SharedQueue, await_up, stop};

fn await_job(site: &TestEnv) -> String {
    let mut worker = site.worker();
    let mut found = None;
    eventually("a job", || {
        if let Reply::Job { attr_path, .. } = worker.ready() {
            found = Some(attr_path);
        }
        found.is_some()
    });
    found.unwrap_or_default()
}

/// CONTRACT QR16.
#[test]
fn long_jobs_are_handed_out_one_after_the_other() {
    const COUNT: usize = 5;
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "long_jobs", 1);
    let site = &queue.sites[0];
    let payload = "z".repeat(60 << 20);
    let short: String = (1..COUNT).map(|number| format!("long{number} short\n")).collect();
    site.write("f.1.txt", format!("long0 {payload}\n{short}"));
    let instances = queue.start();
    eventually("the lines to be stored", || {
        queue.rows(server, "SELECT count(*) FROM fetcher_runs WHERE is_complete = 1") == ["1"]
    });
    // Other long lines than the first would only take longer to read.
    let long = "UPDATE payload SET payload = (SELECT payload FROM payload WHERE payload <> 'short')";
    queue.rows(server, &format!("{long} WHERE payload = 'short'"));
    let workers: Vec<_> = (0..COUNT).map(|_| site.worker()).collect();
    let ask = |mut worker: orchestrator_harness::Worker| {
        thread::spawn(move || match worker.ready() {
            Reply::Job { attr_path, payload } => (attr_path, payload.len()),
            other => (format!("{other:?}"), 0),
        })
    };
    let asked: Vec<_> = workers.into_iter().map(ask).collect();
    let mut given: Vec<(String, usize)> =
        asked.into_iter().map(|one| one.join().expect("an answer")).collect();
    given.sort();
    let expected: Vec<(String, usize)> = (0..COUNT).map(|n| (format!("long{n}"), payload.len())).collect();
    assert!(given == expected, "{given:?}");
    assert_eq!(site.metric("queue/queue_store", "unsent"), 0);
    stop(instances);
}

/// A role without rights on the tables holds every advisory lock of the program, and notifies numbers that no
/// key has.
#[test]
fn a_role_that_may_only_connect_stops_no_instance() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "intruder", 1).set("queue.postgres.instance=one");
    let site = &queue.sites[0];
    site.write("f.1.txt", "a 0\nb 0\nc 0\n");
    server.script(&queue.dsn, "CREATE ROLE intruder LOGIN");
    let locks: Vec<String> = ["orchestrator queue/orchestrator_queue", "orchestrator_queue/one"]
        .iter()
        .chain(&["orchestrator_queue rules", "orchestrator_queue attempts", "orchestrator_queue waiting"])
        .map(|name| format!("SELECT pg_advisory_lock(hashtextextended('{name}', 0))"))
        .collect();
    let _intruder =
        OpenSession::start(&queue.dsn.replace("postgres@", "intruder@"), "intruder", &locks.join(";"));
    let instances = queue.start();
    await_job(site);
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE application_name = 'orchestrator queue' AND datname = 'intruder'";
    queue.rows(server, end);
    await_job(site);
    // A conflict with the lease's session is tried again, too, but is no failure.
    let failures = || site.log().matches("link down").count();
    let before = failures();
    server.script(&queue.dsn, "NOTIFY orchestrator_queue, '{-9223372036854775808,-99999999999}'");
    server.script(&queue.dsn, "NOTIFY orchestrator_queue, '{}'");
    await_job(site);
    assert_eq!(site.worker().ready(), Reply::NoJobs);
    assert_eq!(failures(), before, "{}", site.log());
    stop(instances);
}

#[test]
fn an_unexpected_null_is_a_state_of_the_link() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "null", 1);
    let site = &queue.sites[0];
    site.write("f.1.txt", "a 0\nb 0\nc 0\n");
    let instances = queue.start();
    await_job(site);
    let functions = queue.functions(server);
    let rows = |sql: &str| queue.rows(server, &format!("{functions}; {sql}"));
    let original = rows("SELECT pg_get_functiondef('record_deliveries'::regproc)").join("\n");
    rows(
        "CREATE OR REPLACE FUNCTION record_deliveries(ids bigint[], redeliver boolean) RETURNS SETOF bigint
         LANGUAGE sql AS 'SELECT NULL::bigint'",
    );
    let mut worker = site.worker();
    worker.send(b"READY\n").expect("it is connected");
    site.first_cause("queue", "were altered");
    rows(&original);
    await_up(site, "queue/queue_store");
    assert!(matches!(worker.reply(), Reply::Job { .. }));
    assert!(!site.log().contains("panicked"), "{}", site.log());
    stop(instances);
}

/// CONTRACT QR53.
#[test]
fn a_line_that_the_database_refuses_is_skipped_and_counted() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "refused_lines", 1);
    let site = &queue.sites[0];
    let instances = queue.start();
    queue.rows(server, "ALTER TABLE payload ADD CHECK (payload NOT LIKE 'bad%')");
    let lines: String =
        (0..100).map(|n| format!("job{n} {}\n", if n % 40 == 3 { "bad" } else { "good" })).collect();
    site.write("f.1.txt", format!("nul a\0b\n{lines}"));
    eventually("the file to be read", || {
        queue.rows(server, "SELECT count(*) FROM fetcher_runs WHERE is_complete = 1") == ["1"]
    });
    assert_eq!(queue.rows(server, "SELECT count(*) FROM listing"), ["97"]);
    eventually("the count", || site.metric("queue/queue_store", "unstorable") == 4);
    await_up(site, "queue/queue_store");
    await_job(site);
    stop(instances);
}

#[test]
fn another_encoding_is_refused_by_name() {
    let server = Postgres::shared();
    let mut queue = SharedQueue::new(server, "utf8", 1);
    let create = "CREATE DATABASE latin1 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0";
    server.script(&queue.dsn, create);
    let dsn = queue.dsn.replace("/utf8", "/latin1");
    let site = queue.sites.remove(0).set(&format!("queue.postgres.dsn={dsn}"));
    let instance = site.start();
    site.first_cause("queue", "the database latin1 has the encoding LATIN1");
    stop(vec![instance]);
}

/// As managed servers do before their disk is full. Sessions keep the default of their start.
#[test]
fn a_database_that_takes_no_writes_for_a_while_is_a_link_that_is_down() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "read_only", 1);
    let site = &queue.sites[0];
    site.write("f.1.txt", "a 0\nb 0\nc 0\n");
    let instances = queue.start();
    await_job(site);
    let other = queue.dsn.replace("/read_only", "/postgres");
    server.script(&other, "ALTER DATABASE read_only SET default_transaction_read_only = on");
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'read_only'";
    server.script(&other, end);
    let mut worker = site.worker();
    worker.send(b"READY\n").expect("it is connected");
    let cause = site.first_cause("queue", "(SQLSTATE 25006)");
    assert!(cause.help.contains("name a server that takes writes"), "{cause:?}");
    server.script(&other, "ALTER DATABASE read_only RESET default_transaction_read_only");
    assert!(matches!(worker.reply(), Reply::Job { .. }));
    await_up(site, "queue/queue_store");
    stop(instances);
}
