//! Operators see which instance has what, and the schema without an instance.

use std::process::Stdio;

use orchestrator_harness::{Postgres, Reply, eventually, psql};

use super::{SharedQueue, shared::answer, stop};

#[test]
fn instances_are_listed_with_leases_sockets_fetchers_and_jobs() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "instances", 2).named();
    let [left, right] = &queue.sites[..] else { unreachable!() };
    left.write("f.1.txt", "a 0\n");
    let mut instances = queue.start();
    let mut worker = right.worker();
    eventually("the job", || matches!(worker.ready(), Reply::Job { .. }));

    let rows = answer(left, &["instances"]);
    let of =
        |name: &str| rows.as_array().into_iter().flatten().find(|row| row["instance"] == name).expect(name);
    for (name, site, fetchers, in_flight) in [("left", left, 1, 0), ("right", right, 0, 1)] {
        let row = of(name);
        assert_eq!(row["socket"], site.socket().display().to_string(), "{row}");
        assert_eq!((row["live"].as_bool(), row["fetchers"].as_u64()), (Some(true), Some(fetchers)), "{row}");
        assert_eq!(row["in_flight"].as_u64(), Some(in_flight), "{row}");
        assert!(row["host"].is_string() && row["lease_until"].is_i64(), "{row}");
    }
    assert_eq!(answer(left, &["in-flight"])[0]["instance"], "right");
    assert_eq!(answer(left, &["show", "a"])["in_flight"]["instance"], "right");
    let (_, shown, _) = left.cli(&["queue", "show", "a"]);
    assert!(shown.contains(" of instance right, held until "), "{shown}");
    let note = |site: &orchestrator_harness::TestEnv| site.node("queue/lease")["note"]["text"].to_string();
    eventually("both leases in the tree", || note(left).contains("instance left; instances with a lease: 2"));

    assert!(instances.remove(1).terminate().success());
    let rows = answer(left, &["instances"]);
    assert_eq!(rows[1]["live"], false, "{rows}");
    eventually("one lease in the tree", || note(left).contains("instances with a lease: 1"));
    stop(instances);
}

#[test]
fn a_queue_on_sqlite_has_no_list_of_instances() {
    let site = crate::site();
    let instance = site.start();
    assert_eq!(site.worker().ready(), Reply::NoJobs);
    assert_eq!(answer(&site, &["instances"]), serde_json::json!([]));
    let (_, text, _) = site.cli(&["queue", "instances"]);
    assert_eq!(text, "the queue is on SQLite: this process is its only instance\n");
    stop(vec![instance]);
}

/// The tables that an administrator creates are those of a start.
#[test]
fn the_printed_schema_is_that_of_a_start() {
    let server = Postgres::shared();
    let [by_hand, by_start] = ["by_hand", "by_start"].map(|name| SharedQueue::new(server, name, 1));
    let mut init = by_hand.sites[0].bare_command();
    let printed = init.args(["queue", "init", "--print"]).stdout(Stdio::piped()).output().expect("it runs");
    let sql = String::from_utf8(printed.stdout).expect("UTF-8");
    assert!(sql.starts_with("BEGIN;\nCREATE SCHEMA IF NOT EXISTS orchestrator_queue;\n"), "{sql}");
    psql(&by_hand.dsn, &sql).expect("it succeeds");
    let created = "SELECT string_agg(a, E'\\n' ORDER BY a) FROM (
            SELECT format('%s %s %s', c.relkind, c.relname, pg_get_indexdef(c.oid)) AS a FROM pg_class AS c
            WHERE c.relnamespace = 'orchestrator_queue'::regnamespace AND c.relname !~ '^attempt_\\d'
            UNION ALL SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p WHERE p.pronamespace::regnamespace::text LIKE 'orchestrator_queue%') AS x";
    let before = by_hand.rows(server, created);
    let instances = by_start.start();
    assert_eq!(by_start.rows(server, created), before);
    stop(instances);
    stop(by_hand.start());
}
