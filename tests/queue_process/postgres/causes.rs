//! `orchestrator why` names what the queue waits for at the server: sessions of others, locks, a full disk, a
//! standby.

use std::{
    fs,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    OpenSession, Postgres, PrintedCause, Reply, SmallDisk, TestEnv, eventually, rounds, wait_for,
};

use super::{SharedQueue, await_up, stop};

/// Waits for a cause of `queue/server_watch` with this text.
fn cause(site: &TestEnv, text: &str) -> PrintedCause {
    let is_it = |cause: &PrintedCause| cause.path == "queue/server_watch" && cause.text.contains(text);
    wait_for(text, || site.causes("queue").into_iter().find(is_it))
}

fn await_no_cause(site: &TestEnv) {
    eventually("the cause to be gone", || {
        site.causes("queue").iter().all(|cause| cause.path != "queue/server_watch")
    });
}

/// Creates a queue with a file of one job, which its first instance has read.
fn with_job(server: &Postgres, database: &str) -> (SharedQueue, Vec<orchestrator_harness::Instance>) {
    let queue = SharedQueue::new(server, database, 1);
    queue.sites[0].write("f.1.txt", "a 0\n");
    let instances = queue.start();
    eventually("the file to be read", || {
        queue.rows(server, "SELECT count(*) FROM fetcher_runs WHERE is_complete = 1") == ["1"]
    });
    (queue, instances)
}

#[test]
fn what_holds_vacuum_back_is_named_as_far_as_the_role_may_see_it() {
    let mut server = Postgres::start();
    server.set("max_prepared_transactions", Some("2"));
    server.stop();
    server.start_again();
    let mut queue = SharedQueue::new(&server, "vacuum", 2);
    server.script(&queue.dsn, "CREATE ROLE guest LOGIN; GRANT CREATE ON DATABASE vacuum TO guest");
    let dsn = queue.dsn.replace("postgres@", "guest@");
    let of_guest = queue.sites.remove(1).set(&format!("queue.postgres.dsn={dsn}"));
    queue.sites.push(of_guest.set("queue.postgres.schema=of_guest"));
    let [owner, guest] = &queue.sites[..] else { unreachable!() };
    let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class";
    let report = OpenSession::start(&queue.dsn, "nightly report", snapshot);
    let prepared = "CREATE TABLE t (); BEGIN; INSERT INTO t DEFAULT VALUES; PREPARE TRANSACTION 'forgotten'";
    drop(OpenSession::start(&queue.dsn, "two phases", prepared));
    let instances = queue.start();

    let is_old = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'nightly report' AND xact_start < clock_timestamp() - interval '45 s'";
    eventually("the transaction to be old", || server.script(&queue.dsn, is_old) == "1");
    for site in [owner, guest] {
        assert_eq!(site.worker().ready(), Reply::NoJobs);
        await_no_cause(site);
    }
    let found = cause(
        owner,
        &format!("pid {} (application nightly report, role postgres, client 127.0.0.1", report.pid),
    );
    assert!(found.text.contains("idle in transaction, transaction of 6"), "{found:?}");
    assert!(
        found.evidence[1].contains("the prepared transaction 'forgotten' of the role postgres"),
        "{found:?}"
    );
    assert!(found.help.contains(&format!("pg_terminate_backend({})", report.pid)), "{found:?}");
    assert_eq!(found.evidence.len(), 2, "{found:?}");
    let found = cause(guest, &format!("pid {} (application nightly report, role postgres)", report.pid));
    let grant = "the role guest may not see others' sessions: GRANT pg_read_all_stats TO guest";
    assert_eq!(found.evidence.last().map(String::as_str), Some(grant), "{found:?}");

    drop(report);
    for site in [owner, guest] {
        let found = cause(site, "the prepared transaction 'forgotten'");
        assert!(found.help.starts_with("ROLLBACK PREPARED 'forgotten'"), "{found:?}");
    }
    server.script(&queue.dsn, "ROLLBACK PREPARED 'forgotten'");
    queue.sites.iter().for_each(await_no_cause);
    stop(instances);
}

/// An instance for each table on which somebody holds a lock.
#[test]
fn a_lock_of_another_session_is_named_with_its_holder_and_no_thread_hangs() {
    // A hand-out neither reads nor changes them.
    const NOT_USED: [&str; 2] = ["failure", "incarnation"];
    let held = Duration::from_secs(rounds("ORCHESTRATOR_QUEUE_POSTGRES_OUTAGE_SECS", 4) * 2);
    let mut server = Postgres::start();
    server.set("max_connections", Some("200"));
    server.stop();
    server.start_again();
    let tables: Vec<String> = if held < Duration::from_secs(60) {
        ["log", "instance"].map(str::to_owned).into()
    } else {
        let (queue, instances) = with_job(&server, "unlocked");
        stop(instances);
        let all = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
                       AND relnamespace = 'orchestrator_queue'::regnamespace";
        queue.rows(&server, all)
    };
    let mut locked = Vec::new();
    for table in &tables {
        let (queue, instances) = with_job(&server, &format!("locked_{table}"));
        let lock = format!("BEGIN; LOCK TABLE orchestrator_queue.{table}");
        let holder = OpenSession::start(&queue.dsn, "by hand", &lock);
        let mut worker = queue.sites[0].worker();
        worker.send(b"READY\n").expect("it listens");
        if NOT_USED.contains(&table.as_str()) {
            assert!(matches!(worker.reply(), Reply::Job { .. }), "{table}");
            drop(holder);
            stop(instances);
            continue;
        }
        let found =
            cause(&queue.sites[0], &format!("the queue waits for a lock on orchestrator_queue.{table}"));
        let who = format!(
            "pid {} (application by hand, role postgres, client 127.0.0.1, idle in transaction",
            holder.pid
        );
        assert!(found.text.contains(&who), "{found:?}");
        assert!(found.help.contains(&format!("pg_terminate_backend({})", holder.pid)), "{found:?}");
        locked.push((queue, instances, holder, worker, Instant::now()));
    }
    for (queue, instances, holder, mut worker, from) in locked {
        let site = &queue.sites[0];
        // The statement gives up and is tried again: the cause stays.
        let is_named = || {
            let causes = site.causes("queue");
            assert!(causes.iter().any(|cause| cause.path == "queue/server_watch"), "{causes:?}");
            assert_ne!(site.node("queue/queue_store")["state"], "stuck", "{causes:?}");
        };
        while from.elapsed() < held {
            is_named();
        }
        eventually("three tries", || {
            is_named();
            site.metric("queue/queue_store", "retried") >= 3
        });
        drop(holder);
        assert!(matches!(worker.reply(), Reply::Job { .. }));
        // The transactions of the other holders go on holding vacuum back, in every database.
        eventually("the cause to be gone", || {
            site.causes("queue").iter().all(|cause| !cause.text.contains("waits for a lock"))
        });
        await_up(site, "queue/queue_store");
        stop(instances);
    }
}

#[test]
fn a_standby_that_does_not_confirm_is_named() {
    let server = Postgres::start();
    let (queue, instances) = with_job(&server, "standby");
    let site = &queue.sites[0];
    let loss = "a fail-over can lose the last answers";
    eventually("the loss to be logged", || site.log().matches(loss).count() == 1);
    server.set("synchronous_standby_names", Some("nobody"));
    let mut worker = site.worker();
    worker.send(b"READY\n").expect("it listens");
    let found = cause(site, "no synchronous standby has confirmed a commit for");
    let facts = ["synchronous_standby_names = nobody", "pg_stat_replication: no standby is connected"];
    assert_eq!(found.evidence, facts, "{found:?}");
    // A session waits at the server for each commit that is given up: they must not fill it.
    wait_for("the commit to be given up", || {
        site.link("queue/queue_store").reason.contains("did not answer").then_some(())
    });
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    assert_eq!(server.script(&queue.dsn, sessions), "1");
    assert_eq!(site.link("queue/lease").state, "up", "the lease waits for no standby");
    server.set("synchronous_standby_names", None);
    assert!(matches!(worker.reply(), Reply::Job { .. }));
    await_no_cause(site);
    stop(instances);
}

/// The server decides for all instances whether somebody works.
#[test]
fn an_instance_without_workers_is_no_cause_while_another_has_some() {
    let server = Postgres::start();
    let queue = SharedQueue::new(&server, "workers", 2).named();
    queue.sites[0].write("f.1.txt", "a 0\nb 0\n");
    let instances = queue.start();
    let text = "2 jobs wait, no worker has asked since the start (0 in flight, limits leave 2 free)";
    for site in &queue.sites {
        let found = site.first_cause("queue", text);
        let help = format!("start workers at {}, or at another instance", site.socket().display());
        assert_eq!((&*found.path, found.help), ("queue/queue_store", help));
    }
    // The second one has a worker that finds nothing while hand-outs are paused.
    let is_free = |site: &TestEnv| site.causes("queue").iter().all(|cause| cause.path != "queue/queue_store");
    assert_eq!(queue.sites[1].cli(&["queue", "pause"]).0, 0);
    queue.sites[1].first_cause("queue", "an operator paused hand-outs");
    assert_eq!(queue.sites[1].worker().ready(), Reply::NoJobs);
    eventually("no cause at either", || queue.sites.iter().all(is_free));
    let [left, right] = <[_; 2]>::try_from(instances).expect("two instances");
    drop(right);
    queue.sites[0].first_cause("queue", "an operator paused hand-outs");
    eventually("the cause to return with the end of its session", || !is_free(&queue.sites[0]));
    stop(vec![left]);
}

#[test]
fn a_full_disk_of_the_server_is_named_in_its_words() {
    let test = "postgres::causes::a_full_disk_of_the_server_is_named_in_its_words";
    SmallDisk::with(64, test, |disk| {
        let directory = disk.path().join("space");
        fs::create_dir(&directory).expect("a directory");
        let server = Postgres::start();
        server.create_tablespace("small", &directory);
        let (queue, instances) = with_job(&server, "disk");
        let site = &queue.sites[0];
        server.script(&queue.dsn, "ALTER TABLE orchestrator_queue.payload SET TABLESPACE small");
        disk.fill();
        let payload = "x".repeat(900);
        site.write("g.1.txt", (0..20_000).map(|i| format!("p{i} {payload}\n")).collect::<String>());
        let found = site.first_cause("queue", "No space left on device");
        assert!(
            found.text.contains("could not extend file") && found.text.contains("SQLSTATE 53100"),
            "{found:?}"
        );
        assert!(found.help.contains("free space"), "{found:?}");
        assert_eq!(site.worker().ready().attr_path(), "a", "what needs no space goes on");
        disk.free();
        eventually("the rest to be stored", || {
            queue.rows(&server, "SELECT count(*) FROM payload") == ["20001"]
        });
        eventually("no cause", || site.causes("queue").is_empty());
        stop(instances);
    });
}
