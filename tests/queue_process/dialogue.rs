//! Hand-outs and their order (CONTRACT QC10 to QC16), with another process writing the log
//! meanwhile.

use orchestrator_harness::{Database, Reply, Worker};

use crate::site;

/// Default of `hold_secs`.
const HOLD: i64 = 43_200;

fn now(database: &Database) -> i64 {
    database.rows("SELECT unixepoch()")[0].parse().expect("seconds")
}

/// Takes jobs and reports each done until there is none.
fn drain(worker: &mut Worker) -> Vec<String> {
    let mut seen = Vec::new();
    let mut reply = worker.ready();
    while reply != Reply::NoJobs {
        seen.push(reply.attr_path().to_owned());
        reply = worker.done(reply.attr_path(), 0);
    }
    seen
}

#[test]
fn c10_case_19_ready_without_jobs_gets_nojobs() {
    let site = site();
    let _instance = site.start();
    assert_eq!(site.worker().ready(), Reply::NoJobs);
}

/// CONTRACT QC11, case 20 of the original's test: a second connection changes log rows while the
/// process serves.
#[test]
fn c11_case_20_log_changes_of_other_processes_count() {
    let site = site();
    site.write("f1.100.txt.part", "alpha 0 1\nbravo 0 1\ncharlie 0 1\ndelta 0 1\n");
    let _instance = site.start();
    let mut worker = site.worker();
    let foreign = site.database();
    foreign.expect("SELECT count(*) FROM queue", &["4"]);
    foreign.execute(
        "INSERT INTO log VALUES ('alpha', 103, 105, 0);
         INSERT INTO log VALUES ('bravo', 105, 106, 0);
         INSERT INTO log VALUES ('charlie', 104, 107, 0);",
    );
    assert_eq!(worker.ready(), Reply::Job { attr_path: "delta".into(), payload: "0 1".into() });
    assert_eq!(worker.ready().attr_path(), "alpha");
    assert_eq!(worker.ready().attr_path(), "charlie");
    assert_eq!(worker.done("delta", 1).attr_path(), "bravo");
    assert_eq!(worker.done("charlie", 0), Reply::NoJobs);
    assert_eq!(worker.done("bravo", 0), Reply::NoJobs);
    site.append("f1.100.txt.part", "echo 0 1\n");
    foreign.expect("SELECT count(*) FROM queue", &["5"]);
    assert_eq!(worker.done("charlie", 0).attr_path(), "echo");
    let codes = foreign.rows("SELECT attr_path, exit_code FROM log ORDER BY 1");
    assert_eq!(codes, ["alpha|NULL", "bravo|0", "charlie|0", "delta|1", "echo|NULL"]);
}

#[test]
fn c12_a_path_of_two_fetchers_is_handed_out_once_at_a_time() {
    let site = site();
    site.write("f1.1.txt", "alpha 0 1\n");
    site.write("f2.2.txt", "alpha 1.0 1.1\n");
    let _instance = site.start();
    let mut worker = site.worker();
    site.database().expect("SELECT count(*) FROM queue", &["2"]);
    let first = worker.ready();
    assert_eq!(worker.ready(), Reply::NoJobs, "alpha is with a worker");
    let second = worker.done("alpha", 0);
    let mut payloads: Vec<_> = [first, second]
        .into_iter()
        .map(|reply| match reply {
            Reply::Job { payload, .. } => payload,
            other => panic!("{other:?}"),
        })
        .collect();
    payloads.sort();
    assert_eq!(payloads, ["0 1", "1.0 1.1"]);
    assert_eq!(worker.done("alpha", 0), Reply::NoJobs);
}

/// CONTRACT QC13, QC14: a path is held for 12 hours to the second. Another process changes the log;
/// the clock is real.
#[test]
fn c13_c14_a_hold_ends_after_hold_secs() {
    let site = site();
    site.write("f1.1.txt", "alpha 0 1\n");
    site.write("f2.2.txt", "alpha 1.0 1.1\n");
    let _instance = site.start();
    let foreign = site.database();
    let mut worker = site.worker();
    foreign.expect("SELECT count(*) FROM queue", &["2"]);
    worker.ready();
    // An hour is left, which no slow machine exceeds.
    foreign.execute(&format!("UPDATE log SET started = {}", now(&foreign) - HOLD + 3600));
    assert_eq!(worker.ready(), Reply::NoJobs);
    foreign.execute(&format!("UPDATE log SET started = {}", now(&foreign) - HOLD - 1));
    assert_eq!(worker.ready().attr_path(), "alpha");
    assert_eq!(worker.ready(), Reply::NoJobs, "both are with workers");
    // Rows of the same run are not handed out again, however long ago that was.
    foreign.execute("UPDATE log SET started = 5");
    assert_eq!(worker.ready(), Reply::NoJobs);
}

#[test]
fn c15_the_newest_run_of_a_path_counts_and_older_runs_continue() {
    let site = site();
    site.write("f1.1.txt", "alpha 0 1\nbravo 0 1\ncharlie 0 1\n");
    site.write("f1.2.txt.part", "alpha 0 2\n");
    let _instance = site.start();
    let foreign = site.database();
    foreign.expect("SELECT count(*) FROM queue", &["4"]);
    let mut worker = site.worker();
    let mut seen: Vec<_> = (0..3).map(|_| worker.ready()).collect();
    seen.sort_by_key(|reply| reply.attr_path().to_owned());
    let job =
        |attr_path: &str, payload: &str| Reply::Job { attr_path: attr_path.into(), payload: payload.into() };
    assert_eq!(seen, [job("alpha", "0 2"), job("bravo", "0 1"), job("charlie", "0 1")]);
    for reply in &seen {
        assert_eq!(worker.done(reply.attr_path(), 0), Reply::NoJobs);
    }
    // The newer run lists a path that only the older one had: it is a new job.
    site.append("f1.2.txt.part", "bravo 0 2\n");
    foreign.expect("SELECT count(*) FROM queue", &["5"]);
    assert_eq!(worker.ready(), job("bravo", "0 2"));
}

#[test]
fn c16_a_hand_out_marks_all_runs_and_shadows_later_rows() {
    let site = site();
    site.write("f1.1.txt", "alpha 0 1\n");
    site.write("f1.2.txt", "alpha 0 2\n");
    site.write("f1.0.txt.part", "beta 0 0\n");
    let _instance = site.start();
    let foreign = site.database();
    foreign.expect("SELECT count(*) FROM queue", &["3"]);
    let mut worker = site.worker();
    assert_eq!(drain(&mut worker).len(), 2);
    foreign.expect("SELECT DISTINCT is_dequeued FROM queue", &["1"]);
    // A row of an older run, read after the newest was handed out, is shadowed ..
    site.append("f1.0.txt.part", "alpha 0 0\n");
    foreign.expect(
        "SELECT is_dequeued FROM queue WHERE fetcher_run_started = 0 AND attr_path = 'alpha'",
        &["0"],
    );
    assert_eq!(worker.ready(), Reply::NoJobs);
    // .. until the runs that shadow it are deleted.
    site.remove("f1.2.txt");
    site.remove("f1.1.txt");
    foreign.expect("SELECT count(*) FROM fetcher_runs", &["1"]);
    assert_eq!(worker.ready(), Reply::Job { attr_path: "alpha".into(), payload: "0 0".into() });
}

/// The system's clock jumps by hours and days in both directions while workers work: no job is lost
/// and none hangs. Set ahead, holds end early. Set back, they end later by as much, and DONE ends
/// them at once.
#[test]
fn a_clock_jump_loses_no_job() {
    const DAY: i64 = 86_400;
    let library = ["x86_64", "aarch64"]
        .map(|machine| format!("/usr/lib/{machine}-linux-gnu/faketime/libfaketime.so.1"))
        .into_iter()
        .find(|path| std::path::Path::new(path).exists())
        .expect("libfaketime is installed");
    let directory = tempfile::tempdir().unwrap();
    let jump = directory.path().join("jump");
    let set = |seconds: i64| {
        let next = directory.path().join("next");
        std::fs::write(&next, format!("{seconds:+}\n")).unwrap();
        std::fs::rename(next, &jump).unwrap();
    };
    set(0);
    let site = site().shell(&format!(
        "export LD_PRELOAD={library} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 \
         DONT_FAKE_MONOTONIC=1",
        jump.display()
    ));
    site.write("f1.1.txt", "alpha 0 1\nbravo 0 1\ncharlie 0 1\ndelta 0 1\n");
    let instance = site.start();
    let foreign = site.database();
    foreign.expect("SELECT count(*) FROM queue", &["4"]);
    let mut worker = site.worker();
    let first = worker.ready().attr_path().to_owned();
    let started = |attr_path: &str| -> i64 {
        foreign.rows(&format!("SELECT started FROM log WHERE attr_path = '{attr_path}'"))[0].parse().unwrap()
    };
    let began = started(&first);
    assert!((began - now(&foreign)).abs() < 600, "the clock of the test itself");
    // Another fetcher's row of the path in flight is held until the clock passes the end of the
    // hold.
    site.write("f2.2.txt", format!("{first} other\n"));
    foreign.expect("SELECT count(*) FROM queue", &["5"]);
    set(-3 * DAY);
    let second = worker.ready().attr_path().to_owned();
    assert_ne!(second, first);
    assert!((started(&second) - (began - 3 * DAY)).abs() < 600, "the clock was set back");
    let third = worker.done(&second, 2).attr_path().to_owned();
    assert_eq!(foreign.rows(&format!("SELECT exit_code FROM log WHERE attr_path = '{second}'")), ["2"]);
    set(10 * DAY);
    let mut seen = vec![first.clone(), second, third.clone()];
    // The hold of `first` is over; the last one never started, so it comes first.
    let last = worker.ready().attr_path().to_owned();
    seen.push(last.clone());
    match worker.ready() {
        Reply::Job { attr_path, payload } => {
            assert_eq!((attr_path, payload.as_str()), (first.clone(), "other"))
        }
        other => panic!("{other:?}"),
    }
    // Set back again: a path started in the future is held, one started long ago is not.
    set(-DAY);
    site.write("f3.3.txt", format!("{third} again\n{last} again\nnew 1\n"));
    foreign.expect("SELECT count(*) FROM queue", &["8"]);
    assert_eq!(worker.ready().attr_path(), "new");
    assert_eq!(worker.ready().attr_path(), third);
    assert_eq!(worker.ready(), Reply::NoJobs);
    assert_eq!(worker.done(&last, 0).attr_path(), last, "DONE ends a hold whenever it was started");
    // A restart at the earlier time uses the same database.
    drop(worker);
    assert!(instance.terminate().success(), "{}", site.log());
    set(-20 * 365 * DAY);
    let mut instance = site.start();
    let mut worker = site.worker();
    assert_eq!(worker.ready(), Reply::NoJobs);
    assert_eq!(worker.done(&third, 3), Reply::NoJobs);
    assert_eq!(foreign.rows(&format!("SELECT exit_code FROM log WHERE attr_path = '{third}'")), ["3"]);
    site.write("f4.4.txt", "later 1\n");
    foreign.expect("SELECT count(*) FROM queue", &["9"]);
    assert_eq!(worker.ready().attr_path(), "later");
    seen.sort();
    assert_eq!(seen, ["alpha", "bravo", "charlie", "delta"]);
    assert!(instance.ended().is_none());
    for child in ["queue_store", "housekeeper", "worker_socket", "reader", "fetcher_watcher", "inotify"] {
        assert_eq!(site.node(&format!("queue/{child}"))["restarts"], 0, "{child}: {}", site.log());
    }
    assert!(instance.terminate().success());
}
