//! Other processes that use the database (CONTRACT QR41, QR43, QR44), and foreign, newer or damaged
//! databases (CONTRACT QR46 to QR48).

use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use orchestrator_harness::{Database, Reply, TestEnv, eventually, original, wait_for};

use crate::site;

const EX_CONFIG: i32 = 78;

/// Time limit of an answer while another process reads.
const ANSWER: Duration = Duration::from_millis(100);

/// Longer than the 5 s after which the original fails.
const HELD: Duration = Duration::from_secs(6);

fn lines(n: u32) -> String {
    (0..n).map(|i| format!("a{i} 1\n")).collect()
}

#[test]
fn r43_a_reader_in_another_process_does_not_delay_workers() {
    let site = site();
    site.write("f.1.txt", lines(20_000));
    let instance = site.start();
    let reader = site.database();
    reader.expect("SELECT count(*) FROM queue", &["20000"]);
    let mut worker = site.worker();
    let mut reply = worker.ready();
    reader.execute("BEGIN; SELECT count(*) FROM queue;");
    let seen = reader.rows("SELECT count(*) FROM log");
    let since = Instant::now();
    let (mut times, mut files) = (Vec::new(), 0);
    while since.elapsed() < HELD {
        let asked = Instant::now();
        reply = worker.done(reply.attr_path(), 0);
        times.push(asked.elapsed());
        if times.len() % 200 == 0 {
            // New files arrive meanwhile.
            files += 1;
            site.write(&format!("g.{files}.txt"), "g 1\n");
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(reader.rows("SELECT count(*) FROM log"), seen, "the reader kept its view all the time");
    let answers = times.len();
    times.sort_unstable();
    assert!(times[answers / 2] < ANSWER, "the median of {answers} answers");
    // A slow disk may delay a few answers; waiting for the reader would delay more, or one for very
    // long.
    assert!(times[answers * 95 / 100] < ANSWER, "19 of 20 of {answers} answers");
    let longest = times[answers - 1];
    assert!(longest < HELD / 2, "{longest:?}: an answer waited for the reader");
    site.database().expect("SELECT count(*) FROM queue WHERE attr_path = 'g'", &[&files.to_string()]);
    eventually("the link to be up", || site.link("queue/queue_store").state == "up");
    reader.execute("COMMIT");
    assert!(reader.rows("SELECT count(*) FROM log")[0].parse::<usize>().unwrap() > answers / 2);
    assert!(instance.terminate().success());
}

/// CONTRACT QR44: a file of the original has a rollback journal, and a reader prevents the change
/// to a write-ahead log.
#[test]
fn r44_a_rollback_journal_with_a_reader_is_waited_for() {
    let site = site();
    original::create(&site.database_path(), 2, 2, "");
    let reader = site.database();
    reader.execute("BEGIN; SELECT * FROM queue;");
    reader.rows("SELECT count(*) FROM queue");
    site.write("f.1.txt", "alpha 0 1\n");
    let mut instance = site.spawn();
    eventually("the link to report the reason", || {
        let link = site.link("queue/queue_store");
        link.state == "down" && link.reason.contains("waiting for exclusive access")
    });
    let mut worker = site.worker();
    worker.send(b"READY\n").unwrap();
    thread::sleep(HELD);
    assert!(instance.ended().is_none());
    assert_eq!(site.link("queue/queue_store").state, "down");
    assert_eq!(site.node("queue/queue_store")["restarts"], 0, "an outage is state, not a crash");
    reader.execute("COMMIT");
    assert_eq!(worker.reply().attr_path(), "alpha", "the request waited");
    eventually("the link to be up", || site.link("queue/queue_store").state == "up");
    assert_eq!(site.database().rows("PRAGMA journal_mode"), ["wal"]);
}

/// CONTRACT QR44: requests wait while another process writes, and nothing is answered before its
/// commit.
#[test]
fn r44_requests_wait_for_another_writer() {
    let site = site();
    site.write("f.1.txt", "alpha 0 1\nbravo 0 1\ncharlie 0 1\n");
    let instance = site.start();
    let writer = site.database();
    writer.expect("SELECT count(*) FROM queue", &["3"]);
    let mut worker = site.worker();
    let first = worker.ready();
    writer.execute("BEGIN IMMEDIATE; UPDATE log SET exit_code = NULL");
    worker.send(format!("DONE {} 5\n", first.attr_path()).as_bytes()).unwrap();
    let mut other = site.worker();
    other.send(b"READY\n").unwrap();
    eventually("the link to report the reason", || {
        site.link("queue/queue_store").reason.contains("waiting for exclusive access")
    });
    thread::sleep(HELD);
    assert_eq!(writer.rows("SELECT count(*) FROM log WHERE finished IS NOT NULL"), ["0"]);
    assert_eq!(
        writer.rows("SELECT count(*) FROM queue WHERE is_dequeued"),
        ["1"],
        "nothing was done behind the lock"
    );
    writer.execute("COMMIT");
    let mut seen = vec![first.attr_path().to_owned(), worker.reply().attr_path().to_owned()];
    // Each answered request is durable.
    let done = format!("SELECT exit_code FROM log WHERE attr_path = '{}'", first.attr_path());
    assert_eq!(writer.rows(&done), ["5"]);
    seen.push(other.reply().attr_path().to_owned());
    seen.sort();
    assert_eq!(seen, ["alpha", "bravo", "charlie"]);
    assert_eq!(writer.rows("SELECT count(*) FROM queue WHERE is_dequeued"), ["3"]);
    eventually("the link to be up", || site.link("queue/queue_store").state == "up");
    assert!(instance.terminate().success());
}

/// The answers to workers between two failures of the ingest are no success of it.
#[test]
fn an_ingest_that_fails_is_reported_while_workers_are_answered() {
    let site = site();
    site.write("f.1.txt", lines(5_000));
    let instance = site.start();
    let other = site.database();
    other.expect("SELECT count(*) FROM queue", &["5000"]);
    other.execute("CREATE INDEX other ON queue (json(payload))");
    site.write("g.1.txt", "golf zero\n");
    let mut worker = site.worker();
    let mut reply = worker.ready();
    let mut times = Vec::new();
    eventually("the link to report the reason", || {
        for _ in 0..20 {
            let asked = Instant::now();
            reply = worker.done(reply.attr_path(), 0);
            times.push(asked.elapsed());
        }
        let link = site.link("queue/queue_store");
        link.state == "down" && link.reason.contains("malformed JSON")
    });
    times.sort_unstable();
    assert!(times[times.len() / 2] < ANSWER, "workers do not wait for the next try of the ingest");
    other.execute("DROP INDEX other");
    other.expect("SELECT count(*) FROM queue WHERE attr_path = 'golf'", &["1"]);
    eventually("the link to be up", || site.link("queue/queue_store").state == "up");
    assert!(instance.terminate().success());
}

#[test]
fn r41_a_second_instance_is_refused_and_the_first_continues() {
    let site = site();
    site.write("f.1.txt", "alpha 0 1\n");
    let mut first = site.start();
    site.database().expect("SELECT count(*) FROM queue", &["1"]);
    let second_site =
        TestEnv::new(site.binary()).set(&format!("queue.database={}", site.database_path().display()));
    let mut second = second_site.spawn();
    assert_eq!(second.wait().code(), Some(EX_CONFIG));
    let log = second_site.log();
    let path = site.database_path().display().to_string();
    assert!(log.contains("is used by a running instance") && log.contains(&path), "{log}");
    assert!(first.ended().is_none());
    assert_eq!(site.worker().ready().attr_path(), "alpha");
    first.kill_nine(); // The lock ends with the process.
    let _third = site.start();
    assert_ne!(site.worker().ready(), Reply::Closed);
}

#[test]
fn r47_a_newer_schema_is_refused_and_not_touched() {
    let site = site();
    original::create(&site.database_path(), 2, 3, "INSERT INTO log VALUES ('alpha', 1, 2, 3)");
    let before = fs::read(site.database_path()).unwrap();
    let mut instance = site.spawn();
    assert_eq!(instance.wait().code(), Some(EX_CONFIG));
    assert!(site.log().contains("schema version 3") && site.log().contains("knows 2"), "{}", site.log());
    assert_eq!(fs::read(site.database_path()).unwrap(), before);
    assert!(!site.path().join("queue.db-wal").exists());
}

/// CONTRACT QR46: the original writes the version after its tables, so a kill between leaves tables
/// newer than their version.
#[test]
fn r46_tables_newer_than_their_version_are_migrated() {
    let rows = "INSERT INTO fetchers VALUES (3, 'f1'); INSERT INTO fetcher_runs VALUES (3, 1, 0);
                INSERT INTO log VALUES ('old', 1, 2, 3);
                INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload) VALUES (3, 1, 'alpha', 'old')";
    for (objects, stamp) in [(1, 0), (2, 0), (2, 1)] {
        let site = site();
        original::create(&site.database_path(), objects, stamp, rows);
        site.write("f1.1.txt", "alpha new\n");
        let instance = site.start();
        let database = site.database();
        database.expect("SELECT fetcher_run_started, attr_path, payload FROM queue", &["1|alpha|new"]);
        assert_eq!(database.rows("PRAGMA user_version"), ["2"], "{objects} stamped {stamp}");
        assert_eq!(database.rows("PRAGMA integrity_check"), ["ok"]);
        assert_eq!(site.worker().ready().attr_path(), "alpha");
        if objects == 1 {
            assert_eq!(
                database.rows("SELECT order_jitter FROM queue"),
                ["-1555884244"],
                "made anew from the file"
            );
        }
        assert!(instance.terminate().success());
    }
}

fn kept_aside(site: &TestEnv) -> Vec<PathBuf> {
    let entries = fs::read_dir(site.path()).expect("the site").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.display().to_string().contains("queue.db.corrupt-")).collect()
}

#[test]
fn r48_a_garbage_database_is_set_aside_and_rebuilt() {
    let garbage = b"this is no database at all, not even a short one\n".repeat(500);
    let site = site();
    fs::write(site.database_path(), &garbage).unwrap();
    site.write("f.1.txt", "alpha 0 1\n");
    let instance = site.start();
    assert_eq!(site.worker().ready().attr_path(), "alpha");
    let kept = kept_aside(&site);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(fs::read(&kept[0]).unwrap(), garbage);
    let stamp = kept[0].display().to_string();
    assert!(
        stamp
            .rsplit('-')
            .next()
            .is_some_and(|time| time.parse::<u64>().is_ok_and(|time| time > 1_000_000_000))
    );
    assert!(site.log().lines().any(|line| line.contains("ERROR") && line.contains(&stamp)), "{}", site.log());
    assert!(instance.terminate().success());
}

#[test]
fn r48_on_corrupt_refuse_changes_nothing() {
    let garbage = b"garbage ".repeat(5_000);
    let site = site().set("queue.on_corrupt=refuse");
    fs::write(site.database_path(), &garbage).unwrap();
    let mut instance = site.spawn();
    assert_eq!(instance.wait().code(), Some(EX_CONFIG));
    assert!(site.log().contains("is damaged"), "{}", site.log());
    assert_eq!(fs::read(site.database_path()).unwrap(), garbage);
    assert!(kept_aside(&site).is_empty());
}

/// CONTRACT QR48: damage inside a real database is found when the page is read, not at the start.
#[test]
fn r48_damaged_pages_are_rebuilt_from_the_files_while_running() {
    let site = site();
    site.write("f.1.txt", lines(20_000));
    let instance = site.start();
    Database::open(&site.database_path()).expect("SELECT count(*) FROM queue", &["20000"]);
    assert!(instance.terminate().success());
    let mut file = fs::File::options().write(true).open(site.database_path()).unwrap();
    let size = file.metadata().unwrap().len();
    // Everything except the header and the schema.
    file.seek(SeekFrom::Start(10 * 4096)).unwrap();
    file.write_all(&vec![0xa5; usize::try_from(size).unwrap() - 10 * 4096]).unwrap();
    drop(file);
    let _instance = site.start();
    // The connection that meets the damage is closed; the next one is served.
    let job = wait_for("a job again", || {
        let mut worker = site.worker();
        worker.send(b"READY\n").ok()?;
        worker.try_reply().ok().filter(|reply| matches!(reply, Reply::Job { .. }))
    });
    assert!(job.attr_path().starts_with('a'));
    assert!(!kept_aside(&site).is_empty());
    site.database().expect("SELECT count(*) FROM queue", &["20000"]);
    assert_eq!(site.database().rows("PRAGMA integrity_check"), ["ok"]);
    assert!(site.log().contains("ERROR"));
}
