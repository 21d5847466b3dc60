//! Files of an open database that are deleted, moved or replaced (CONTRACT QR51). No commit into a
//! file that is not at the path is answered, and work continues with the files at the path.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Database, Reply, TestEnv, Worker, assert_valid_database, eventually, original, wait_for,
};

use crate::site;

fn lines(n: u32) -> String {
    (0..n).map(|i| format!("a{i} 1\n")).collect()
}

/// An answered DONE: attribute path, exit code, and time of the request for the job.
type Done = (String, i64, Instant);

/// Stops the workers, also when the test fails.
#[derive(Default)]
struct Load {
    stop: AtomicBool,
    failed: AtomicBool,
    /// Next exit code.
    codes: AtomicI64,
}

struct StopAtEnd<'a>(&'a Load);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, SeqCst);
        self.0.failed.store(thread::panicking(), SeqCst);
    }
}

/// Works until stopped. Like the original's workers, it repeats a DONE until it is answered.
fn work(site: &TestEnv, load: &Load) -> Vec<Done> {
    let mut done = Vec::new();
    let mut request = "READY\n".to_owned();
    let mut job: Option<(String, i64, Instant)> = None;
    while (job.is_some() && !load.failed.load(SeqCst)) || !load.stop.load(SeqCst) {
        let asked = Instant::now();
        let reply = Worker::connect(&site.socket()).and_then(|mut worker| {
            worker.send(request.as_bytes())?;
            worker.try_reply()
        });
        let Ok(reply @ (Reply::Job { .. } | Reply::NoJobs)) = reply else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        done.extend(job.take());
        request = "READY\n".to_owned();
        if let Reply::Job { attr_path, .. } = reply {
            // A slower pace leaves jobs for the end.
            thread::sleep(Duration::from_millis(1));
            let code = load.codes.fetch_add(1, SeqCst);
            request = format!("DONE {attr_path} {code}\n");
            job = Some((attr_path, code, asked));
        } else {
            thread::sleep(Duration::from_millis(1));
        }
    }
    done
}

/// Changes files of the database while `workers` work, and stops once they continue. Checks that
/// every job requested after the change has its exit code in the file at the path. With `keeps_all`
/// this holds for the jobs before the change, too.
fn replaced_under_load(what: &str, keeps_all: bool, change: impl FnOnce(&TestEnv)) -> TestEnv {
    const LINES: u32 = 3_000;
    let site = site();
    site.write("f.1.txt", lines(LINES));
    let instance = site.start();
    let load = Load::default();
    let (all, changed) = thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(|| work(&site, &load))).collect();
        let running = StopAtEnd(&load);
        eventually("some jobs to be done", || load.codes.load(SeqCst) > 100);
        change(&site);
        let changed = Instant::now();
        eventually(&format!("{what}: the change to be noticed"), || site.log().contains("while it was open"));
        // The admin endpoint reports a planned restart, at no cost to the restart intensity.
        eventually(&format!("{what}: the link to be up again"), || {
            let node = site.node("queue/queue_store");
            node["planned_restarts"] == 1 && site.link("queue/queue_store").state == "up"
        });
        let noticed = load.codes.load(SeqCst);
        eventually(&format!("{what}: the work to go on"), || load.codes.load(SeqCst) > noticed + 150);
        site.database().expect("SELECT count(*) FROM queue", &[&LINES.to_string()]);
        drop(running);
        let all: Vec<Done> =
            workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect();
        (all, changed)
    });
    let log = site.log();
    assert!(log.contains("link down") && !log.contains("ERROR") && !log.contains("damaged"), "{what}: {log}");
    assert!(instance.terminate().success(), "{what}: {}", site.log());
    assert!(assert_valid_database(&site.database_path()));
    let mut stored = BTreeMap::new();
    for row in site.database().rows("SELECT attr_path, exit_code FROM log WHERE finished IS NOT NULL") {
        let (attr_path, code) = row.split_once('|').expect("two columns");
        stored.insert(attr_path.to_owned(), code.to_owned());
    }
    let mut last: BTreeMap<&String, i64> = BTreeMap::new();
    for (attr_path, code, _) in all.iter().filter(|(_, _, asked)| keeps_all || *asked > changed) {
        last.entry(attr_path).and_modify(|last| *last = (*last).max(*code)).or_insert(*code);
    }
    assert!(last.len() > 100, "{what}: {}", last.len());
    for (attr_path, code) in last {
        assert_eq!(stored.get(attr_path), Some(&code.to_string()), "{what}: {attr_path}");
    }
    site
}

fn beside(site: &TestEnv, suffix: &str) -> PathBuf {
    site.path().join(format!("queue.db{suffix}"))
}

#[test]
fn r51_a_database_deleted_under_load_is_rebuilt() {
    replaced_under_load("deleted", false, |site| fs::remove_file(site.database_path()).unwrap());
    replaced_under_load("deleted with its log", false, |site| {
        for suffix in ["", "-wal", "-shm"] {
            fs::remove_file(beside(site, suffix)).unwrap();
        }
    });
}

#[test]
fn r51_a_database_replaced_under_load_is_used() {
    let site = replaced_under_load("replaced by another one", false, |site| {
        original::create(&site.path().join("new.db"), 2, 2, "INSERT INTO log VALUES ('kept', 1, 2, 3)");
        fs::rename(site.path().join("new.db"), site.database_path()).unwrap();
    });
    assert_eq!(site.database().rows("SELECT exit_code FROM log WHERE attr_path = 'kept'"), ["3"]);
    // The former file is complete at its new path, without its log.
    let site = replaced_under_load("moved aside", false, |site| {
        fs::rename(site.database_path(), site.path().join("aside.db")).unwrap();
    });
    let aside = Database::open(&site.path().join("aside.db"));
    assert_eq!(aside.rows("PRAGMA integrity_check"), ["ok"]);
    assert!(aside.rows("SELECT count(*) FROM log")[0].parse::<u32>().unwrap() > 50);
}

#[test]
fn r51_a_log_or_index_deleted_under_load_loses_nothing() {
    for suffix in ["-wal", "-shm"] {
        replaced_under_load(suffix, true, |site| fs::remove_file(beside(site, suffix)).unwrap());
    }
    replaced_under_load("a foreign log", true, |site| {
        fs::write(site.path().join("foreign"), "a log of another database").unwrap();
        fs::rename(site.path().join("foreign"), beside(site, "-wal")).unwrap();
    });
}

/// CONTRACT QR51: the change is also noticed without load, and an operator's question never opens
/// the replacing file.
#[test]
fn r51_an_idle_store_notices_a_replaced_database() {
    let site = site();
    site.write("f.1.txt", "alpha 1\n");
    let instance = site.start();
    assert_eq!(site.worker().ready().attr_path(), "alpha");
    eventually("the log to be truncated", || fs::metadata(beside(&site, "-wal")).unwrap().len() == 0);
    fs::remove_file(site.database_path()).unwrap();
    let reason = wait_for("the link to report the reason", || {
        let log = site.log();
        log.lines().find(|line| line.contains("link down")).map(ToOwned::to_owned)
    });
    assert!(reason.contains("queue.db was deleted or moved while it was open"), "{reason}");
    assert!(reason.contains("opened again"), "{reason}");
    // An open connection ends with the former database.
    let reply = wait_for("the job from the file", || {
        let mut worker = site.worker();
        worker.send(b"READY\n").ok()?;
        worker.try_reply().ok().filter(|reply| matches!(reply, Reply::Job { .. }))
    });
    assert_eq!(reply.attr_path(), "alpha");
    assert!(instance.terminate().success());
    assert_eq!(site.database().rows("SELECT attr_path FROM log"), ["alpha"]);
}

/// CONTRACT QR41: a deleted lock file is created and locked again, so that a second instance is
/// refused. If another instance has the lock, nothing is written until it ends.
#[test]
fn r41_a_deleted_lock_file_is_locked_again() {
    let site = site();
    site.write("f.1.txt", "alpha 1\nbravo 1\n");
    let instance = site.start();
    let mut worker = site.worker();
    site.database().expect("SELECT count(*) FROM queue", &["2"]);
    let first = worker.ready().attr_path().to_owned();
    let lock = beside(&site, ".orchestrator-lock");
    fs::remove_file(&lock).unwrap();
    eventually("the lock file", || lock.exists() && site.log().contains("locked the new file"));
    let second =
        TestEnv::new(site.binary()).set(&format!("queue.database={}", site.database_path().display()));
    assert_eq!(second.spawn().wait().code(), Some(78), "{}", second.log());
    // Locked by another process before it is noticed.
    let taken = site.path().join("taken");
    let foreign = fs::File::create(&taken).unwrap();
    foreign.lock().unwrap();
    fs::rename(&taken, &lock).unwrap();
    eventually("the link to report the reason", || {
        site.link("queue/queue_store").reason.contains("is used by a running instance")
    });
    worker.send(format!("DONE {first} 4\n").as_bytes()).unwrap();
    assert_eq!(site.database().rows("SELECT count(*) FROM log WHERE finished IS NOT NULL"), ["0"]);
    drop(foreign);
    assert_ne!(worker.reply(), Reply::NoJobs);
    eventually("the link to be up", || site.link("queue/queue_store").state == "up");
    assert_eq!(site.database().rows("SELECT exit_code FROM log WHERE finished IS NOT NULL"), ["4"]);
    assert_eq!(site.node("queue/queue_store")["restarts"], 0, "{}", site.log());
    assert!(instance.terminate().success());
}
