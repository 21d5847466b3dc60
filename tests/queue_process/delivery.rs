//! Delivery: no job is lost, none is handed out twice without need (CONTRACT QR27, QR28, QR42), and
//! no client starves another.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    thread,
};

use orchestrator_harness::{Reply, TestEnv, eventually, wait_for};

use crate::site;

fn lines(n: u32) -> String {
    (0..n).map(|i| format!("package{i} 1.0 1.1\n")).collect()
}

const ALPHA: &str = "SELECT is_dequeued, started, finished, exit_code FROM queue JOIN log USING (attr_path)";

/// CONTRACT QR27: a hand-out is undone if its client closes before the reply is written, at any
/// moment.
#[test]
fn r27_an_undeliverable_reply_is_undone() {
    let site = site();
    site.write("f.1.txt", "alpha 0 1\n");
    let _instance = site.start();
    let foreign = site.database();
    foreign.expect("SELECT count(*) FROM queue", &["1"]);
    foreign.execute("INSERT INTO log VALUES ('alpha', 103, 105, 7)");
    for _ in 0..20 {
        // The request waits for another writer, and its client closes meanwhile.
        foreign.execute("BEGIN IMMEDIATE");
        let mut client = site.worker();
        client.send(b"READY\n").unwrap();
        let connections = || site.metric("queue/worker_socket", "connections");
        eventually("the client to be accepted", || connections() == 1);
        drop(client);
        foreign.execute("COMMIT");
        // A hand-out made meanwhile must have been undone.
        eventually("the connection to be closed", || connections() == 0);
        foreign.expect(ALPHA, &["0|103|105|7"]);
    }
    assert!(
        site.metric("queue/queue_store", "undone") > 0,
        "no hand-out was ever taken back: the test missed its moment"
    );
    let mut worker = site.worker();
    assert_eq!(worker.ready(), Reply::Job { attr_path: "alpha".into(), payload: "0 1".into() });
    assert_eq!(worker.ready(), Reply::NoJobs);
}

/// CONTRACT QR27: a DONE counts even if its client closes; the next job is not lost with it.
#[test]
fn r27_a_done_of_a_lost_client_counts() {
    let site = site();
    site.write("f.1.txt", "alpha 0 1\nbravo 0 1\n");
    let _instance = site.start();
    let foreign = site.database();
    foreign.expect("SELECT count(*) FROM queue", &["2"]);
    let mut client = site.worker();
    let first = client.ready();
    foreign.execute("BEGIN IMMEDIATE");
    client.send(format!("DONE {} 9\n", first.attr_path()).as_bytes()).unwrap();
    drop(client);
    foreign.execute("COMMIT");
    foreign.expect("SELECT exit_code FROM log WHERE finished IS NOT NULL", &["9"]);
    foreign.expect("SELECT count(*) FROM queue WHERE is_dequeued = 0", &["1"]);
    let second = site.worker().ready();
    assert_ne!(second.attr_path(), first.attr_path());
}

/// CONTRACT QR27 with a reply longer than the socket's buffer: the peer reads a part of it and
/// closes.
#[test]
fn r27_a_partly_read_reply_is_undone() {
    let site = site();
    let payload = "p".repeat(4 << 20);
    site.write("f.1.txt", format!("alpha {payload}\n"));
    let _instance = site.start();
    site.database().expect("SELECT count(*) FROM queue", &["1"]);
    let mut client = UnixStream::connect(site.socket()).unwrap();
    client.write_all(b"READY\n").unwrap();
    client.read_exact(&mut [0; 1_000]).unwrap();
    drop(client);
    site.database().expect("SELECT is_dequeued FROM queue", &["0"]);
    site.database().expect("SELECT count(*) FROM log", &["0"]);
    assert_eq!(site.worker().ready(), Reply::Job { attr_path: "alpha".into(), payload });
}

/// CONTRACT QR27: the reply is written, and the client closes without reading it, at once or after
/// the delivery was recorded.
#[test]
fn r27_an_unread_reply_is_undone() {
    for redeliver in [false, true] {
        let site = site().set(&format!("queue.redeliver_after_lease={redeliver}"));
        site.write("f.1.txt", "alpha 0 1\n");
        let _instance = site.start();
        let database = site.database();
        database.expect("SELECT count(*) FROM queue", &["1"]);
        for answered in 1..=2 {
            let mut client = site.worker();
            client.send(b"READY\n").unwrap();
            eventually("the reply to be written", || {
                site.metric("queue/worker_socket", "answered") == answered
            });
            if answered == 2 {
                database.expect("SELECT delivered > 0 FROM orchestrator_handout", &["1"]);
            }
            drop(client);
            database.expect("SELECT is_dequeued FROM queue", &["0"]);
            database.expect("SELECT count(*) FROM log", &["0"]);
        }
    }
}

/// CONTRACT QR28: a worker takes a job and dies. Like in the original, the job is not handed out
/// again from the same run.
#[test]
fn r28_by_default_a_dead_workers_job_is_not_handed_out_again() {
    let site = site().set("queue.hold_secs=1");
    site.write("f.1.txt", "alpha 0 1\n");
    let _instance = site.start();
    assert_eq!(site.worker().ready().attr_path(), "alpha");
    let foreign = site.database();
    eventually("the hold to be over", || {
        assert_eq!(site.worker().ready(), Reply::NoJobs);
        foreign.rows("SELECT unixepoch() > started + 3 FROM log") == ["1"]
    });
    // Only a newer run makes it available.
    site.write("f.2.txt", "alpha 0 2\n");
    foreign.expect("SELECT count(*) FROM queue", &["2"]);
    assert_eq!(site.worker().ready(), Reply::Job { attr_path: "alpha".into(), payload: "0 2".into() });
}

#[test]
fn r28_redeliver_after_lease_repeats_an_expired_job() {
    let site = site().set("queue.hold_secs=1").set("queue.redeliver_after_lease=true");
    site.write("f.1.txt", "alpha 0 1\nbravo 0 1\n");
    let _instance = site.start();
    let foreign = site.database();
    let mut worker = site.worker();
    let first = worker.ready();
    assert_ne!(worker.done(first.attr_path(), 0), Reply::NoJobs);
    // The job reported done stays done; the other one is handed out again and again.
    let lost = if first.attr_path() == "alpha" { "bravo" } else { "alpha" };
    for _ in 0..2 {
        let started = foreign.rows(&format!("SELECT started FROM log WHERE attr_path = '{lost}'"));
        let again =
            wait_for("the hold to be over", || Some(worker.ready()).filter(|reply| *reply != Reply::NoJobs));
        assert_eq!(again, Reply::Job { attr_path: lost.into(), payload: "0 1".into() });
        let held =
            foreign.rows(&format!("SELECT started - {} > 1 FROM log WHERE attr_path = '{lost}'", started[0]));
        assert_eq!(held, ["1"], "not before the hold was over");
    }
    assert_eq!(worker.done(lost, 0), Reply::NoJobs);
}

/// CONTRACT QR42: `complete` is committed with the last rows, so a run is read again after a kill
/// before them.
#[test]
fn r42_a_kill_in_a_complete_file_has_it_read_again() {
    const ROWS: u32 = 80_000;
    let site = site();
    let instance = site.start();
    site.worker().ready();
    let foreign = site.database();
    write_and_rename(&site, "f.1.txt", &lines(ROWS));
    let some = wait_for("some rows", || {
        let count: u32 = foreign.rows("SELECT count(*) FROM queue")[0].parse().expect("a number");
        (count > 1_000).then_some(count)
    });
    instance.kill_nine();
    let left: u32 = foreign.rows("SELECT count(*) FROM queue")[0].parse().expect("a number");
    assert!(left >= some && left < ROWS, "killed in the middle: {left}");
    assert_eq!(foreign.rows("SELECT is_complete FROM fetcher_runs"), ["0"]);
    let instance = site.start();
    foreign.expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    assert_eq!(foreign.rows("SELECT count(*) FROM queue"), [ROWS.to_string()]);
    assert_eq!(foreign.rows("PRAGMA integrity_check"), ["ok"]);
    assert!(instance.terminate().success());
}

/// Creates a complete file by a rename.
fn write_and_rename(site: &TestEnv, name: &str, text: &str) {
    let outside = site.path().join("outside");
    std::fs::write(&outside, text).expect("a file");
    std::fs::rename(outside, site.file(name)).expect("moved into place");
}

/// One client pipelines 100k requests, another one asks one by one. The test counts answers instead
/// of time. The second client gets all its answers while the first one still waits. The first one
/// gets one turn for each of the second's, and a few between the second's requests.
#[test]
fn a_flooding_client_does_not_starve_another() {
    const FLOOD: usize = 100_000;
    const OTHERS: u64 = 200;
    let site = site();
    site.write("f.1.txt", lines(20_000));
    let _instance = site.start();
    site.database().expect("SELECT count(*) FROM queue", &["20000"]);
    let answered = || site.metric("queue/worker_socket", "answered");
    let flood = UnixStream::connect(site.socket()).unwrap();
    let (mut writer, mut reader) = (flood.try_clone().unwrap(), flood.try_clone().unwrap());
    let writing = thread::spawn(move || writer.write_all(&b"READY\n".repeat(FLOOD)).is_ok());
    let reading = thread::spawn(move || {
        let mut buffer = [0; 4096];
        while reader.read(&mut buffer).is_ok_and(|read| read > 0) {}
    });
    eventually("the flood to be answered", || answered() > 500);
    let mut other = site.worker();
    let mut reply = other.ready();
    let before = answered();
    for _ in 0..OTHERS {
        reply = other.done(reply.attr_path(), 0);
    }
    let meanwhile = answered() - before - OTHERS;
    assert!(meanwhile < FLOOD as u64 / 2, "the flood was over");
    assert!(meanwhile < 5 * OTHERS, "{meanwhile} answers to the flood for {OTHERS} to the other");
    let before = answered();
    other.send(&b"READY\n".repeat(OTHERS as usize)).unwrap();
    for _ in 0..OTHERS {
        assert_ne!(other.reply(), Reply::Closed);
    }
    let meanwhile = answered() - before - OTHERS;
    assert!(meanwhile >= OTHERS / 2, "{meanwhile} answers to the flood: it was over, or starved in its turn");
    assert!(meanwhile < 3 * OTHERS, "{meanwhile} answers to the flood for {OTHERS} that waited as well");
    flood.shutdown(std::net::Shutdown::Both).unwrap();
    reading.join().unwrap();
    writing.join().unwrap();
}
