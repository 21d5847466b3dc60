//! A full disk under the database (CONTRACT QR45) is an outage with a reason, not a crash.
//! Acknowledged work stays, and the work continues once there is space. A directory without write
//! permission is waited for in the same way.

use std::{collections::BTreeMap, thread, time::Duration};

use orchestrator_harness::{Database, Reply, SmallDisk, TestEnv, Worker, eventually, wait_for};

const JOBS: usize = 4_000;

fn site(disk: &SmallDisk) -> TestEnv {
    let database = disk.path().join("queue.db");
    TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).set(&format!("queue.database={}", database.display()))
}

fn database(disk: &SmallDisk) -> Database {
    Database::open(&disk.path().join("queue.db"))
}

fn lines(n: usize) -> String {
    (0..n).map(|i| format!("package{i} 1.0 1.1\n")).collect()
}

/// Checks that the store's link is down for lack of space and the child was never restarted.
fn assert_full(site: &TestEnv) {
    eventually("the link to report the reason", || {
        let link = site.link("queue/queue_store");
        link.state == "down" && link.reason.contains("no space left")
    });
    assert_eq!(site.node("queue/queue_store")["restarts"], 0, "{}", site.log());
}

/// Takes every job once and reports each done with its own code; waits as long as the store does.
fn work(site: &TestEnv) -> BTreeMap<String, i64> {
    let mut worker = site.worker();
    let mut acknowledged = BTreeMap::new();
    let mut reply = worker.ready();
    while let Reply::Job { attr_path, .. } = &reply {
        let attr_path = attr_path.clone();
        let code = i64::try_from(acknowledged.len()).expect("a small number");
        reply = worker.done(&attr_path, code);
        assert!(acknowledged.insert(attr_path, code).is_none(), "handed out twice");
    }
    assert_eq!(reply, Reply::NoJobs);
    acknowledged
}

#[test]
fn r45_a_disk_that_fills_up_loses_no_acknowledged_work() {
    SmallDisk::with(48, "disk_full::r45_a_disk_that_fills_up_loses_no_acknowledged_work", |disk| {
        let site = site(disk);
        site.write("f.1.txt", lines(JOBS));
        let mut instance = site.start();
        database(disk).expect("SELECT count(*) FROM queue", &[&JOBS.to_string()]);
        let acknowledged = thread::scope(|scope| {
            let worker = scope.spawn(|| work(&site));
            eventually("some work to be done", || site.metric("queue/queue_store", "finished") > 100);
            disk.fill();
            assert_full(&site);
            let waiting = site.metric("queue/queue_store", "finished");
            thread::sleep(Duration::from_secs(1));
            assert_eq!(
                site.metric("queue/queue_store", "finished"),
                waiting,
                "nothing is answered uncommitted"
            );
            assert!(!worker.is_finished(), "the worker waits");
            assert!(instance.ended().is_none());
            disk.free();
            worker.join().expect("the worker")
        });
        assert_eq!(acknowledged.len(), JOBS, "none lost, none twice");
        eventually("the link to be up", || site.link("queue/queue_store").state == "up");
        let foreign = database(disk);
        for (attr_path, code) in acknowledged {
            let stored = foreign.rows(&format!("SELECT exit_code FROM log WHERE attr_path = '{attr_path}'"));
            assert_eq!(stored, [code.to_string()], "{attr_path}");
        }
        assert_eq!(foreign.rows("PRAGMA integrity_check"), ["ok"]);
        drop(foreign);
        assert!(instance.terminate().success());
    });
}

/// CONTRACT QR45 with a kill: work acknowledged before is there after a restart with space.
#[test]
fn r45_a_kill_on_a_full_disk_loses_no_acknowledged_work() {
    SmallDisk::with(8, "disk_full::r45_a_kill_on_a_full_disk_loses_no_acknowledged_work", |disk| {
        let site = site(disk);
        site.write("f.1.txt", lines(50));
        let mut instance = site.start();
        let mut worker = site.worker();
        let mut reply = worker.ready();
        let mut done = Vec::new();
        for _ in 0..20 {
            done.push(format!("{}|7", reply.attr_path()));
            reply = worker.done(reply.attr_path(), 7);
        }
        let in_progress = reply.attr_path().to_owned();
        disk.fill();
        // Commits that fit into the log are answered; the first one that does not waits.
        let mut other = site.worker();
        other.send(&b"READY\n".repeat(40)).unwrap();
        site.write("g.2.txt", lines(JOBS));
        assert_full(&site);
        assert!(instance.ended().is_none());
        instance.kill_nine();
        disk.free();
        let instance = site.start();
        database(disk).expect("SELECT count(*) FROM queue", &[&(50 + JOBS).to_string()]);
        let foreign = database(disk);
        let mut finished = foreign.rows("SELECT attr_path, exit_code FROM log WHERE exit_code IS NOT NULL");
        finished.sort();
        done.sort();
        assert_eq!(finished, done);
        // A reply that was read without a known delivery may be repeated, and is not recorded as
        // done.
        let held = foreign.rows(&format!("SELECT exit_code FROM log WHERE attr_path = '{in_progress}'"));
        let waits =
            format!("SELECT attr_path FROM queue WHERE attr_path = '{in_progress}' AND is_dequeued = 0");
        assert!(held == ["NULL"] || foreign.rows(&waits).contains(&in_progress), "{held:?}");
        assert_eq!(foreign.rows("PRAGMA integrity_check"), ["ok"]);
        drop(foreign);
        assert!(instance.terminate().success());
    });
}

/// CONTRACT QR45: the rows do not fit. Workers get the stored ones; with a larger disk the rest of
/// the file is read.
#[test]
fn r45_a_file_too_large_for_the_disk_is_read_once_it_fits() {
    SmallDisk::with(6, "disk_full::r45_a_file_too_large_for_the_disk_is_read_once_it_fits", |disk| {
        let site = site(disk);
        site.write("a.1.txt", "first 1\n");
        let mut instance = site.start();
        database(disk).expect("SELECT count(*) FROM queue", &["1"]);
        site.write("b.2.txt", lines(60_000));
        assert_full(&site);
        assert!(instance.ended().is_none());
        let mut worker = site.worker();
        worker.send(b"READY\n").unwrap();
        disk.grow(64);
        assert_ne!(worker.reply(), Reply::NoJobs);
        database(disk).expect("SELECT count(*) FROM queue", &["60001"]);
        database(disk).expect("SELECT is_complete FROM fetcher_runs ORDER BY run_started", &["1", "1"]);
        eventually("the link to be up", || site.link("queue/queue_store").state == "up");
        assert!(instance.terminate().success());
    });
}

/// A read-only database directory, with and without a database: workers wait until it can be
/// written.
#[test]
fn a_read_only_database_directory_is_waited_for() {
    SmallDisk::with(16, "disk_full::a_read_only_database_directory_is_waited_for", |disk| {
        for existing in [false, true] {
            let site = site(disk);
            site.write("f.1.txt", "alpha 1\n");
            disk.set_read_only(true);
            let mut instance = site.spawn();
            eventually("the link to report the reason", || {
                let link = site.link("queue/queue_store");
                link.state == "down" && link.reason.to_lowercase().contains("read-only")
            });
            let mut worker = site.worker();
            worker.send(b"READY\n").unwrap();
            assert!(instance.ended().is_none());
            assert_eq!(
                site.node("queue/queue_store")["restarts"],
                0,
                "an outage is no crash; {}",
                site.log()
            );
            disk.set_read_only(false);
            assert_eq!(worker.reply().attr_path(), "alpha", "{existing}");
            eventually("the link to be up", || site.link("queue/queue_store").state == "up");
            assert_eq!(worker.done("alpha", 0), Reply::NoJobs);
            assert!(instance.terminate().success());
            let done = database(disk).rows("SELECT count(*) FROM log WHERE exit_code = 0");
            assert_eq!(done, ["1"]);
            database(disk).execute("UPDATE queue SET is_dequeued = 0");
        }
    });
}

/// CONTRACT QP14: a read-only directory of the socket is waited for; a read-only input directory is
/// only read.
#[test]
fn read_only_socket_and_input_directories_are_handled() {
    SmallDisk::with(16, "disk_full::read_only_socket_and_input_directories_are_handled", |disk| {
        let socket = disk.path().join("worker.sock");
        std::fs::create_dir(disk.path().join("fetchers")).unwrap();
        std::fs::write(disk.path().join("fetchers/f.1.txt"), "alpha 1\n").unwrap();
        let site = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"))
            .set(&format!("queue.socket={}", socket.display()))
            .set(&format!("queue.input_dir={}", disk.path().join("fetchers").display()));
        disk.set_read_only(true);
        let mut instance = site.spawn();
        site.database().expect("SELECT count(*) FROM sqlite_schema WHERE name = 'queue'", &["1"]);
        site.database().expect("SELECT attr_path FROM queue", &["alpha"]);
        eventually("the link to report the reason", || {
            let link = site.link("queue/worker_socket");
            link.state == "down" && link.reason.to_lowercase().contains("read-only")
        });
        assert!(instance.ended().is_none());
        disk.set_read_only(false);
        let mut worker = wait_for("the socket", || Worker::connect(&socket).ok());
        assert_eq!(worker.ready().attr_path(), "alpha");
        for child in ["worker_socket", "queue_store", "reader", "inotify"] {
            assert_eq!(site.node(&format!("queue/{child}"))["restarts"], 0, "{child}: {}", site.log());
        }
        // CONTRACT QP14: after a deletion of the socket file connections stay open, and the path is
        // bound again.
        std::fs::remove_file(&socket).unwrap();
        let mut other = wait_for("the socket again", || Worker::connect(&socket).ok());
        assert_eq!(other.ready(), Reply::NoJobs);
        assert_eq!(worker.done("alpha", 7), Reply::NoJobs);
        assert_eq!(site.database().rows("SELECT exit_code FROM log"), ["7"]);
        // A socket of another process at the path is not replaced.
        std::fs::remove_file(&socket).unwrap();
        let foreign = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        eventually("the link to report the reason", || {
            let link = site.link("queue/worker_socket");
            link.state == "down" && link.reason.contains("is served by another process")
        });
        assert_eq!(worker.ready(), Reply::NoJobs);
        drop(foreign);
        eventually("the socket once more", || {
            Worker::connect(&socket).is_ok_and(|mut worker| worker.ready() == Reply::NoJobs)
        });
        eventually("the link to be up", || site.link("queue/worker_socket").state == "up");
        assert!(instance.terminate().success());
        assert!(!socket.exists());
    });
}
