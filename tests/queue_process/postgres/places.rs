//! The place of an instance: one process has it, and another one takes it over after its end.

use std::time::{Duration, Instant};

use orchestrator_harness::{Postgres, Reply, eventually, wait_for};

use super::{SharedQueue, stop};

/// Longest delay between two attempts to take a place, and the time of a start.
const TAKEOVER_MAX: Duration = Duration::from_secs(4);

/// Key of the lock of the instance `one`; a session has other locks for the time of a transaction.
const KEY: &str = "hashtextextended('orchestrator_queue/one', 0)";

/// Source and conditions of a query for the sessions that have the lock of the instance `one`, in all
/// databases.
fn locks() -> String {
    format!(
        "FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
         WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND (l.classid::bigint << 32 | l.objid::bigint) = {KEY}"
    )
}

#[test]
fn a_second_process_of_an_instance_waits_until_the_first_is_killed() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "places", 2).set("queue.postgres.instance=one");
    let [first, second] = &queue.sites[..] else { unreachable!() };
    second.write("f.1.txt", "a 0\n");
    let running = first.start();
    assert_eq!(first.worker().ready(), Reply::NoJobs);
    let waiting = second.start();
    let link = wait_for("the refusal", || {
        let link = second.link("queue/queue_store");
        (link.state == "down").then_some(link)
    });
    let socket = first.socket().display().to_string();
    assert!(
        link.reason.contains("instance one is in use on host") && link.reason.contains(&socket),
        "{link:?}"
    );
    let cause = second.first_cause("queue", "instance one is in use on host");
    assert!(cause.help.starts_with("stop the other process, or "), "{cause:?}");
    let locks = queue.rows(server, &format!("SELECT l.pid {} AND a.datname = 'places'", locks()));
    assert_eq!(locks.len(), 1, "only the first has the lock");

    let killed = Instant::now();
    running.kill_nine();
    let mut worker = second.worker();
    eventually("the job of the second", || matches!(worker.ready(), Reply::Job { .. }));
    let took = killed.elapsed();
    eprintln!("taken over after {took:?}");
    assert!(took < TAKEOVER_MAX, "{took:?}");
    assert_eq!(second.link("queue/queue_store").state, "up");
    stop(vec![waiting]);
}

/// A session that the server has not ended yet keeps the lock of the place, also after the process has
/// connected again.
#[test]
fn the_place_is_locked_again_after_a_lost_session() {
    let server = Postgres::shared();
    let queue = SharedQueue::new(server, "locked", 1).set("queue.postgres.instance=one");
    let instances = queue.start();
    let mut worker = queue.sites[0].worker();
    assert_eq!(worker.ready(), Reply::NoJobs);
    let dsn = queue.dsn.clone();
    let waiter = std::thread::spawn(move || {
        let sql =
            format!("SET application_name = 'waiter'; SELECT pg_advisory_lock({KEY}); SELECT pg_sleep(60)");
        orchestrator_harness::psql(&dsn, &sql)
    });
    let of_store =
        format!("{} AND a.datname = 'locked' AND a.application_name = 'orchestrator queue'", locks());
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waiter' AND wait_event_type = 'Lock'";
    eventually("the other session to wait", || queue.rows(server, waits) == ["1"]);
    queue.rows(server, &format!("SELECT pg_terminate_backend(l.pid) {of_store}"));
    let sleeps =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waiter' AND wait_event = 'PgSleep'";
    eventually("the other session to have the lock", || queue.rows(server, sleeps) == ["1"]);
    assert_eq!(worker.ready(), Reply::NoJobs, "it works without the lock");
    assert_eq!(queue.rows(server, &format!("SELECT count(*) {of_store}")), ["0"]);

    queue.rows(
        server,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'waiter'",
    );
    assert!(waiter.join().expect("it ends").is_err());
    eventually("the lock", || {
        assert_eq!(worker.ready(), Reply::NoJobs);
        queue.rows(server, &format!("SELECT count(*) {of_store}")) == ["1"]
    });
    stop(instances);
}
