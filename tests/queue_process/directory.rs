//! The input directory: lost events (CONTRACT QR14), deletion and return (CONTRACT QR15), and many
//! renames.

use std::{
    fs,
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
    time::Instant,
};

use orchestrator_harness::{DEADLINE, Instance, Reply, TestEnv, eventually, load::SeededRng};

use crate::site;

const ATTRS: &str = "SELECT attr_path FROM queue ORDER BY 1";

fn restarts(site: &TestEnv) -> u64 {
    let children = site.node("queue")["children"].as_array().cloned().unwrap_or_default();
    assert_eq!(children.len(), 7);
    children.iter().map(|child| child["restarts"].as_u64().expect("a number")).sum()
}

fn gone(site: &TestEnv) -> bool {
    let link = site.link("queue/inotify");
    link.state == "down" && link.reason.contains("input directory is gone")
}

/// Checks that rows are served, new files are read and no child was restarted.
fn lives(site: &TestEnv, instance: &mut Instance) {
    site.write("alive.9.txt", "alive 1\n");
    site.database().expect("SELECT payload FROM queue WHERE attr_path = 'alive'", &["1"]);
    assert!(instance.ended().is_none());
    assert_eq!(restarts(site), 0, "{}", site.log());
    site.remove("alive.9.txt");
    site.database().expect("SELECT payload FROM queue WHERE attr_path = 'alive'", &[]);
}

/// CONTRACT QR14: more events than the kernel queues while the watcher is paused. Files that were
/// created, written, completed and deleted meanwhile are found.
#[test]
fn r14_a_rescan_follows_an_event_queue_overflow() {
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").expect("a kernel with inotify");
    let limit: usize = limit.trim().parse().expect("a number");
    let site = site();
    site.write("goes.1.txt", "goes 1\n");
    site.write("grows.2.txt.part", "grows 1\n");
    site.write("ends.3.txt.part", "ends 1\n");
    site.write("stays.4.txt", "stays 1\n");
    let mut instance = site.start();
    let database = site.database();
    database.expect(ATTRS, &["ends", "goes", "grows", "stays"]);
    site.actor_command("queue/inotify", "pause");
    // Three different events per round, so that the kernel cannot merge them.
    for round in 0..limit / 3 + 1_000 {
        let name = format!("noise{}", round % 2);
        site.write(&name, "");
        site.remove(&name);
    }
    site.remove("goes.1.txt");
    site.append("grows.2.txt.part", "grown 1\n");
    site.append("ends.3.txt.part", "ended 1\n");
    site.rename("ends.3.txt.part", "ends.3.txt");
    site.write("comes.5.txt", "comes 1\n");
    site.actor_command("queue/inotify", "resume");
    database.expect(ATTRS, &["comes", "ended", "ends", "grown", "grows", "stays"]);
    database.expect("SELECT is_complete FROM fetcher_runs ORDER BY run_started", &["0", "1", "1", "1"]);
    eventually("the loss to be logged", || site.log().contains("events were lost"));
    // Followed files are still followed.
    site.append("grows.2.txt.part", "further 1\n");
    database.expect("SELECT payload FROM queue WHERE attr_path = 'further'", &["1"]);
    lives(&site, &mut instance);
}

/// CONTRACT QR15: the directory is deleted and created again.
#[test]
fn r15_a_deleted_directory_is_watched_again_once_created() {
    let site = site();
    site.write("f.1.txt", "alpha 0 1\n");
    site.write("g.2.txt.part", "bravo 0 1\n");
    let mut instance = site.start();
    let database = site.database();
    database.expect(ATTRS, &["alpha", "bravo"]);
    for round in 0..2 {
        fs::remove_dir_all(site.input_dir()).unwrap();
        eventually("the link to report the reason", || gone(&site));
        assert_ne!(site.worker().ready(), Reply::Closed, "workers are answered all the same");
        assert!(!site.input_dir().exists(), "it is waited for, not made");
        fs::create_dir(site.input_dir()).unwrap();
        let (file, attr) = (format!("h.{round}.txt"), format!("charlie{round}"));
        site.write(&file, format!("{attr} 0 1\n"));
        // Missing files are deleted, new ones are read, and later events are received.
        database.expect(ATTRS, &[&attr]);
        eventually("the link to be up", || site.link("queue/inotify").state == "up");
        site.append("i.3.txt.part", "delta 0 1\n");
        database.expect(ATTRS, &[&attr, "delta"]);
    }
    lives(&site, &mut instance);
}

/// CONTRACT QR15: events of a directory that was moved away are ignored. Moved back, it has lost
/// nothing.
#[test]
fn r15_a_directory_moved_away_and_back_loses_nothing() {
    let site = site();
    site.write("f.1.txt.part", "alpha 0 1\n");
    let mut instance = site.start();
    let database = site.database();
    database.expect(ATTRS, &["alpha"]);
    let away = site.path().join("away");
    fs::rename(site.input_dir(), &away).unwrap();
    eventually("the link to report the reason", || gone(&site));
    assert_eq!(site.worker().ready().attr_path(), "alpha", "its rows stay while it is away");
    fs::write(away.join("g.2.txt"), "bravo 0 1\n").unwrap();
    fs::rename(&away, site.input_dir()).unwrap();
    database.expect(ATTRS, &["alpha", "bravo"]);
    eventually("the link to be up", || site.link("queue/inotify").state == "up");
    site.append("f.1.txt.part", "charlie 0 1\n");
    database.expect(ATTRS, &["alpha", "bravo", "charlie"]);
    let reply = site.worker().done("alpha", 0);
    assert!(["bravo", "charlie"].contains(&reply.attr_path()), "{reply:?}");
    lives(&site, &mut instance);
}

/// CONTRACT QR15: another directory takes the path while the former one exists elsewhere.
#[test]
fn r15_a_replaced_directory_is_watched() {
    let site = site();
    site.write("f.1.txt", "alpha 0 1\n");
    let mut instance = site.start();
    let database = site.database();
    database.expect(ATTRS, &["alpha"]);
    let (old, new) = (site.path().join("old"), site.path().join("new"));
    fs::create_dir(&new).unwrap();
    fs::write(new.join("g.2.txt"), "bravo 0 1\n").unwrap();
    fs::rename(site.input_dir(), &old).unwrap();
    fs::rename(&new, site.input_dir()).unwrap();
    database.expect(ATTRS, &["bravo"]);
    fs::write(old.join("h.3.txt"), "never 0 1\n").unwrap();
    site.write("i.4.txt", "charlie 0 1\n");
    database.expect(ATTRS, &["bravo", "charlie"]);
    lives(&site, &mut instance);
    database.expect(ATTRS, &["bravo", "charlie"]);
}

/// Stops the other thread, also when the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

/// Thousands of renames per second between complete and growing names of several runs. Workers are
/// answered, memory and log stay small, and the final rows are those of the files under their last
/// names.
#[test]
fn many_renames_end_with_the_rows_of_the_final_names() {
    const FILES: usize = 4;
    const RENAMES: u64 = 40_000;
    let site = site();
    let names: Vec<String> =
        (1..=5).flat_map(|run| [format!("f.{run}.txt"), format!("f.{run}.txt.part")]).collect();
    let mut at: Vec<usize> = (0..FILES).map(|file| 2 * file).collect();
    for (file, name) in at.iter().enumerate() {
        site.write(&names[*name], (0..50).map(|i| format!("a{file}-{i} 1\n")).collect::<String>());
    }
    let mut instance = site.start();
    site.database().expect("SELECT count(*) FROM queue", &["200"]);
    let before = instance.memory("VmRSS");
    let (stormy, answers) = (AtomicBool::new(true), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut worker = site.worker();
            let mut reply = worker.ready();
            while stormy.load(SeqCst) {
                answers.fetch_add(1, SeqCst);
                reply = match &reply {
                    Reply::Job { attr_path, .. } => worker.done(attr_path, 0),
                    Reply::NoJobs => worker.ready(),
                    Reply::Closed => panic!("closed"),
                };
            }
        });
        let _running = StopAtEnd(&stormy);
        let mut rng = SeededRng::new(7);
        // Another file is read meanwhile.
        site.write("fresh.1.txt", "fresh 1\n");
        let (foreign, began, mut fresh, mut renames) = (site.database(), Instant::now(), false, 0);
        while renames < RENAMES || !fresh {
            let (file, to) = (rng.below(FILES), rng.below(names.len()));
            if !at.contains(&to) {
                site.rename(&names[at[file]], &names[to]);
                at[file] = to;
                renames += 1;
            }
            if renames % 2_000 == 0 {
                fresh = foreign.rows("SELECT 1 FROM queue WHERE attr_path = 'fresh'") == ["1"];
                assert!(began.elapsed() < DEADLINE, "{renames} renames; log:\n{}", site.log());
            }
        }
        site.remove("fresh.1.txt");
        let meanwhile = answers.load(SeqCst);
        eventually("workers to be answered", || answers.load(SeqCst) > meanwhile + 100);
    });
    assert!(answers.load(SeqCst) > 100);
    // Removing a growing file deletes its run (CONTRACT QC23), even while another file has the
    // complete name. So each file ends under a name of its own.
    for (file, name) in at.iter().enumerate() {
        site.rename(&names[*name], &format!("f.{}.txt", 11 + file));
    }
    let expected: Vec<String> = (0..FILES).map(|file| format!("{}|a{file}", 11 + file)).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    let rows = "SELECT DISTINCT fetcher_run_started, substr(attr_path, 1, 2) FROM queue ORDER BY 1, 2";
    site.database().expect(rows, &expected);
    site.database().expect("SELECT count(*) FROM queue", &["200"]);
    let growth = instance.memory("VmRSS").saturating_sub(before);
    assert!(growth < 64 << 20, "{} MiB", growth >> 20);
    let log = site.log();
    assert!(log.len() < 64 << 10, "{} bytes of log: {}", log.len(), &log[..4096]);
    lives(&site, &mut instance);
    assert!(instance.terminate().success());
}

/// Number of growing files that are completed while the directory is listed again and again.
const RENAMED: usize = 400;

/// CONTRACT QF06: a listing that misses files which are renamed meanwhile deletes no run, so no finished job
/// is handed out again.
#[test]
fn f06_a_file_renamed_during_a_rescan_keeps_its_run() {
    let site = site();
    for run in 0..RENAMED {
        site.write(&format!("f.{run}.txt.part"), format!("attr{run} 1\n"));
    }
    let instance = site.start();
    let database = site.database();
    database.expect("SELECT count(*) FROM queue", &["400"]);
    let mut worker = site.worker();
    let mut reply = worker.ready();
    for _ in 0..RENAMED {
        reply = worker.done(reply.attr_path(), 0);
    }
    assert_eq!(reply, Reply::NoJobs, "every job is done");

    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(SeqCst) {
                site.actor_command("queue/reader", "restart");
            }
        });
        for run in 0..RENAMED {
            site.rename(&format!("f.{run}.txt.part"), &format!("f.{run}.txt"));
            // The restarts set the pace: at most 40 renames for each listing, one for each look at the tree.
            eventually("the reader to be restarted", || {
                site.node("queue/reader")["incarnation"].as_u64() > Some(run as u64 / 40)
            });
        }
        is_over.store(true, SeqCst);
    });
    database.expect("SELECT count(*) FROM fetcher_runs WHERE is_complete", &["400"]);
    assert!(
        site.node("queue/reader")["incarnation"].as_u64() > Some(3),
        "it listed the directory repeatedly"
    );
    // The last file is read after all events before it.
    site.write("last.1.txt", "last 1\n");
    database.expect("SELECT count(*) FROM queue WHERE attr_path = 'last'", &["1"]);
    assert_eq!(worker.ready().attr_path(), "last", "no other job is handed out");
    assert_eq!(worker.ready(), Reply::NoJobs);
    assert!(instance.terminate().success());
}

/// The limits of a user namespace have the errors of `fs.inotify.max_user_instances` and `max_user_watches`.
#[test]
fn a_directory_that_the_kernel_does_not_watch_is_listed() {
    for kind in ["instances", "watches"] {
        let site = site();
        site.write("f.1.txt", "first 1\n");
        let before = site.start();
        site.database().expect("SELECT attr_path FROM queue", &["first"]);
        assert!(before.terminate().success());
        let prelude = format!("echo 0 > /proc/sys/user/max_inotify_{kind}");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--kill-child", "sh", "-c"]);
        command.arg(format!("{prelude}; exec \"$0\" \"$@\""));
        let run = site.command();
        command.arg(run.get_program()).args(run.get_args()).current_dir(site.path());
        command.stdout(Stdio::null()).stderr(fs::File::create(site.log_path()).expect("a log"));
        let instance = Instance::spawn(command);
        instance.await_service(&site);
        let mut worker = site.worker();
        let mut reply = Reply::NoJobs;
        eventually("the job of the database", || {
            reply = worker.ready();
            reply != Reply::NoJobs
        });
        assert_eq!(reply.attr_path(), "first");
        site.write("f.2.txt", "second 1\n");
        site.database().expect("SELECT count(*) FROM queue WHERE attr_path = 'second'", &["1"]);
        let setting = format!("fs.inotify.max_user_{kind}");
        eventually("`why` to name the setting", || {
            let (_, text, _) = site.cli(&["why", "queue"]);
            text.contains(&setting) && text.contains("sysctl -w")
        });
    }
}
