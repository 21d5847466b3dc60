//! Input that the original fails on or loses: malformed names (CONTRACT QR01 to QR03), invalid
//! bytes (CONTRACT QR04 to QR06), other kinds of files (CONTRACT QR07 to QR09), and renames and
//! rewrites that it does not see (CONTRACT QR10 to QR13).

use std::{
    ffi::OsString,
    fs::{self, File},
    io::Write,
    os::unix::{ffi::OsStringExt, fs::symlink},
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use orchestrator_harness::{Instance, Reply, TestEnv, assert_valid_database, eventually, original, wait_for};

use crate::site;

/// Time without growth after which a created file is complete.
const QUIET: Duration = Duration::from_secs(1);

const ATTRS: &str = "SELECT attr_path FROM queue ORDER BY 1";
const RUNS: &str = "SELECT name, run_started FROM fetcher_runs JOIN fetchers USING (fetcher_id) ORDER BY 1";
const COMPLETE: &str = "SELECT is_complete FROM fetcher_runs";

/// Checks that no child was restarted and a new file is still served.
fn lives(site: &TestEnv, instance: &mut Instance) {
    site.write("alive.9.txt", "alive 1\n");
    site.database().expect("SELECT payload FROM queue WHERE attr_path = 'alive'", &["1"]);
    assert!(instance.ended().is_none());
    for child in ["fetcher_watcher", "reader", "inotify", "queue_store", "worker_socket"] {
        assert_eq!(site.node(&format!("queue/{child}"))["restarts"], 0, "{child}; {}", site.log());
    }
}

#[test]
fn r01_r02_r03_malformed_numbers_are_ignored() {
    let names = ["a.abc.txt", "h.-.txt.part", "i.9223372036854775808.txt"];
    let site = site();
    for name in names {
        site.write(name, "no 1\n");
    }
    let mut instance = site.start();
    lives(&site, &mut instance);
    for name in names {
        let moved = format!("x{name}");
        site.rename(name, &moved);
        site.append(&moved, "no 2\n");
        site.remove(&moved);
    }
    site.remove("alive.9.txt");
    site.database().expect(ATTRS, &[]);
    for name in names {
        let warnings = site
            .log()
            .lines()
            .filter(|line| line.contains("WARN") && line.contains(&format!("name=\"{name}\"")))
            .count();
        assert_eq!(warnings, 1, "{name}: one warning and no more; {}", site.log());
    }
}

#[test]
fn r04_r06_invalid_utf_8_skips_its_line_only() {
    let site = site();
    let bad: &[&[u8]] = &[
        b"\xff 1\n",
        b"x \xc3\n",
        b"\xc3\x28 1\r\n",
        b"x \xed\xa0\x80\n",
        b"x \xf0\x9f\xa6\n",
        b"\xc0\x80 1\n",
    ];
    let mut text = b"alpha 0 1\n".to_vec();
    bad.iter().for_each(|line| text.extend_from_slice(line));
    text.extend_from_slice("zulu \u{10ffff}\0\n".as_bytes());
    site.write("there.1.txt", &text);
    let mut instance = site.start();
    site.database().expect(ATTRS, &["alpha", "zulu"]);
    site.append("live.2.txt.part", b"bravo 0 1\nnot \xff\xfe\n");
    site.append("live.2.txt.part", b"charlie 0 1\n");
    site.database().expect(ATTRS, &["alpha", "bravo", "charlie", "zulu"]);
    assert!(site.log().contains("it is not utf-8"), "{}", site.log());
    lives(&site, &mut instance);
}

#[test]
fn r07_r08_r09_directories_links_and_fifos_are_ignored() {
    let make = |site: &TestEnv, number: u32| {
        for part in ["", ".part"] {
            fs::create_dir(site.file(&format!("directory.{number}.txt{part}"))).unwrap();
            let name = format!("loop.{number}.txt{part}");
            symlink(site.file(&name), site.file(&name)).unwrap();
            symlink("nowhere", site.file(&format!("dangling.{number}.txt{part}"))).unwrap();
            let fifo = site.file(&format!("fifo.{number}.txt{part}"));
            assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
            symlink("/dev/zero", site.file(&format!("device.{number}.txt{part}"))).unwrap();
        }
    };
    let site = site();
    make(&site, 1);
    let mut instance = site.start();
    site.write("f.1.txt", "alpha 0 1\n");
    site.database().expect(ATTRS, &["alpha"]);
    make(&site, 2);
    lives(&site, &mut instance);
    // Ignored: they create no runs and are never opened.
    assert_eq!(site.database().rows(RUNS), ["alive|9", "f|1"]);
    assert_eq!(site.metric("queue/reader", "failed_opens"), 0, "{}", site.log());
    fs::remove_dir(site.file("directory.2.txt")).unwrap();
    site.write("directory.2.txt", "bravo 0 1\n");
    site.database().expect(ATTRS, &["alive", "alpha", "bravo"]);
    assert_eq!(site.worker().ready().attr_path().len(), 5);
}

/// A symbolic link is followed to its file in another directory.
#[test]
fn a_link_to_a_growing_file_elsewhere_is_followed() {
    let site = site();
    let _instance = site.start();
    let target = site.path().join("outside");
    fs::write(&target, "alpha 0 1\n").unwrap();
    symlink(&target, site.file("f.1.txt.part")).unwrap();
    site.database().expect(ATTRS, &["alpha"]);
    fs::write(&target, "alpha 0 1\nbravo 0 1\n").unwrap();
    site.database().expect(ATTRS, &["alpha", "bravo"]);
}

/// Files that cannot be opened for lack of descriptors are read later.
#[test]
fn files_are_read_once_descriptors_are_free() {
    let site = site();
    let instance = site.start();
    assert_eq!(site.worker().ready(), Reply::NoJobs);
    let pid = rustix::process::Pid::from_raw(instance.pid().cast_signed());
    let open = fs::read_dir(format!("/proc/{}/fd", instance.pid())).expect("its descriptors").count() as u64;
    let little = Rlimit { current: Some(open + 8), maximum: getrlimit(Resource::Nofile).maximum };
    let limit = prlimit(pid, Resource::Nofile, little).expect("lowered");
    for run in 0..40 {
        site.write(&format!("f.{run}.txt.part"), "alpha 0 1\n");
    }
    let database = site.database();
    eventually("some files to wait", || site.log().contains("cannot open"));
    prlimit(pid, Resource::Nofile, limit).expect("raised");
    database.expect("SELECT count(*) FROM queue", &["40"]);
    assert_eq!(site.node("queue/reader")["restarts"], 0, "{}", site.log());
}

/// CONTRACT QR10: a file is written and renamed before it is examined, here while the watcher is
/// paused.
#[test]
fn r10_a_growing_file_renamed_before_it_was_seen_is_read() {
    let site = site();
    let mut instance = site.start();
    site.actor_command("queue/inotify", "pause");
    site.write("f.1.txt.part", "alpha 0 1\n");
    site.rename("f.1.txt.part", "f.1.txt");
    site.write("g.2.txt.part", "never 0 1\n");
    site.remove("g.2.txt.part");
    site.actor_command("queue/inotify", "resume");
    site.database().expect_queue(&["1|1|alpha|0 1"]);
    site.database().expect(COMPLETE, &["1"]);
    // Repeated many times without a pause.
    for number in 2..200 {
        site.write(&format!("f.{number}.txt.part"), format!("a{number} 1\n"));
        site.rename(&format!("f.{number}.txt.part"), &format!("f.{number}.txt"));
    }
    site.database().expect("SELECT count(*) FROM queue", &["199"]);
    site.database().expect("SELECT count(*) FROM fetcher_runs WHERE is_complete", &["199"]);
    lives(&site, &mut instance);
}

#[test]
fn r11_a_file_renamed_to_its_name_is_read() {
    let site = site();
    let _instance = site.start();
    fs::write(site.path().join("outside"), "alpha 0 1\n").unwrap();
    fs::rename(site.path().join("outside"), site.file("f.1.txt")).unwrap();
    site.write("tmp", "bravo 0 1\n");
    site.rename("tmp", "g.2.txt");
    site.write("tmp", "charlie 0 1\n");
    site.rename("tmp", "h.3.txt.part");
    site.write("tmp", "delta 0 1\n");
    fs::hard_link(site.file("tmp"), site.file("i.4.txt")).unwrap();
    site.database().expect(ATTRS, &["alpha", "bravo", "charlie", "delta"]);
    site.database()
        .expect("SELECT is_complete FROM fetcher_runs ORDER BY run_started", &["1", "1", "0", "1"]);
    // A replacement of the file adds its lines.
    site.write("tmp2", "echo 0 1\n");
    site.rename("tmp2", "f.1.txt");
    site.database().expect("SELECT count(*) FROM queue WHERE attr_path = 'echo'", &["1"]);
}

#[test]
fn r12_a_complete_file_written_in_steps_is_read_whole() {
    let site = site();
    let instance = site.start();
    let database = site.database();
    let mut file = File::create(site.file("f.1.txt")).unwrap();
    file.write_all(b"alpha 0 1\n").unwrap();
    database.expect(ATTRS, &["alpha"]);
    file.write_all(b"bravo 0 1\nchar").unwrap();
    database.expect(ATTRS, &["alpha", "bravo"]);
    file.write_all(b"lie 0 1\n").unwrap();
    drop(file);
    database.expect(ATTRS, &["alpha", "bravo", "charlie"]);
    database.expect(COMPLETE, &["1"]);
    // Written again after it was complete, also over a restart.
    site.append("f.1.txt", "delta 0 1\n");
    database.expect(ATTRS, &["alpha", "bravo", "charlie", "delta"]);
    database.expect(COMPLETE, &["1"]);
    assert!(instance.terminate().success());
    let _instance = site.start();
    // A change before the first listing is not read (CONTRACT QD06); workers are answered after it.
    assert_ne!(site.worker().ready(), Reply::Closed);
    site.append("f.1.txt", "echo 0 1\n");
    database.expect(ATTRS, &["alpha", "bravo", "charlie", "delta", "echo"]);
    // A file closed in the middle of a line is complete; a later writer continues the line from its
    // beginning.
    site.append("f.1.txt", "foxtrot 0 1\ngo");
    database.expect(ATTRS, &["alpha", "bravo", "charlie", "delta", "echo", "foxtrot"]);
    database.expect(COMPLETE, &["1"]);
    site.append("f.1.txt", "lf 0 1\n");
    database.expect(ATTRS, &["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf"]);
    assert_eq!(site.metric("queue/reader", "skipped"), 0);
}

/// CONTRACT QR12: the next start does not read a complete run (CONTRACT QD06), so a run must not be
/// complete while its file is written.
#[test]
fn r12_a_file_with_an_active_writer_is_not_complete() {
    let site = site();
    let _instance = site.start();
    // Files of the first listing count as complete; workers are answered after it.
    assert_eq!(site.worker().ready(), Reply::NoJobs);
    let database = site.database();
    let mut number = 0;
    let (file, complete) = wait_for("a check right after a write", || {
        number += 1;
        let since = Instant::now();
        let mut file = File::create(site.file(&format!("f.{number}.txt"))).unwrap();
        file.write_all(b"alpha 0 1\n").unwrap();
        let run = format!("WHERE {number} IN (fetcher_run_started, run_started)");
        let seen = "SELECT is_complete FROM fetcher_runs JOIN queue ON run_started = fetcher_run_started";
        let complete = wait_for("its line", || database.rows(&format!("{seen} {run}")).pop());
        // A slow machine may pause the writer for longer; such a round proves nothing.
        (since.elapsed() < QUIET).then_some((file, complete))
    });
    assert_eq!(complete, "0");
    drop(file);
    database.expect("SELECT DISTINCT is_complete FROM fetcher_runs", &["1"]);
}

#[test]
fn r13_a_truncated_file_is_read_from_its_start() {
    let site = site();
    let mut instance = site.start();
    let database = site.database();
    site.write("f.1.txt.part", "alpha 0 1\nbravo 0 1\ntai");
    database.expect(ATTRS, &["alpha", "bravo"]);
    site.write("f.1.txt.part", "c 2\n");
    database.expect(ATTRS, &["alpha", "bravo", "c"]);
    // Longer than before, so that the length does not show the rewrite.
    site.write("f.1.txt.part", "delta 0 1\necho 0 1\nfoxtrot 0 1\n");
    database.expect(ATTRS, &["alpha", "bravo", "c", "delta", "echo", "foxtrot"]);
    site.append("f.1.txt.part", "golf 0 1\n");
    site.rename("f.1.txt.part", "f.1.txt");
    database.expect(COMPLETE, &["1"]);
    assert_eq!(database.rows(ATTRS).len(), 7);
    assert_ne!(site.worker().ready(), Reply::NoJobs);
    lives(&site, &mut instance);
}

/// CONTRACT QP13: the longest path that DONE can carry is served and reported; a longer one is
/// skipped with one warning.
#[test]
fn p13_a_path_too_long_for_done_is_skipped() {
    let site = site();
    let longest = "p".repeat(65_510);
    site.write("f.1.txt", format!("{} 1\n{longest} 1\n", "q".repeat(70_000)));
    let mut instance = site.start();
    site.database().expect("SELECT length(attr_path) FROM queue", &["65510"]);
    let mut worker = site.worker();
    assert_eq!(worker.ready().attr_path(), longest);
    assert_eq!(worker.done(&longest, i64::MIN), Reply::NoJobs);
    assert_eq!(site.database().rows("SELECT exit_code FROM log"), [i64::MIN.to_string()]);
    let log = site.log();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("f.1.txt")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("line=1") && warnings[0].contains("70000 bytes"), "{warnings:#?}");
    lives(&site, &mut instance);
}

/// CONTRACT QP13: rows that the database has already, or that another program writes.
#[test]
fn p13_a_row_too_long_for_done_is_marked_as_dequeued() {
    const LONG: u32 = 40;
    let site = site();
    original::create(
        &site.database_path(),
        2,
        2,
        "INSERT INTO fetchers VALUES (1, 'f'); INSERT INTO fetcher_runs VALUES (1, 1, 1);
         INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, order_jitter)
         VALUES (1, 1, hex(zeroblob(40000)), 'long', -9), (1, 1, 'short', '1', 1)",
    );
    site.write("f.1.txt", "");
    let mut instance = site.start();
    let mut worker = site.worker();
    assert_eq!(worker.ready().attr_path(), "short");
    assert_eq!(worker.done("short", 0), Reply::NoJobs);
    let rows = "SELECT length(attr_path), is_dequeued FROM queue WHERE payload = 'long' GROUP BY 1, 2";
    assert_eq!(site.database().rows(rows), ["80000|1"]);
    assert_eq!(site.database().rows("SELECT attr_path FROM log"), ["short"], "nobody got it");
    assert_eq!(site.log().matches("too long for a DONE line").count(), 1, "{}", site.log());
    // More than one request removes at a time.
    site.database().execute(&format!(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {LONG})
         INSERT INTO queue (fetcher_id, fetcher_run_started, attr_path, payload, order_jitter)
         SELECT 1, 1, i || hex(zeroblob(40000)), 'long', -9 FROM n UNION ALL SELECT 1, 1, 'later', '2', 1"
    ));
    let later =
        wait_for("the job behind them", || Some(worker.ready()).filter(|reply| *reply != Reply::NoJobs));
    assert_eq!(later.attr_path(), "later");
    assert_eq!(worker.done("later", 0), Reply::NoJobs);
    assert_eq!(site.database().rows("SELECT count(*) FROM queue WHERE is_dequeued = 0"), ["0"]);
    lives(&site, &mut instance);
    assert!(instance.terminate().success());
    assert!(assert_valid_database(&site.database_path()));
}

/// Control characters are escaped in logged names and worker bytes, and each name is logged once.
#[test]
fn the_log_escapes_names_and_names_peers() {
    let site = site();
    let hostile: &[u8] = b"\n2026-01-01 ERROR forged\x1b[31m\xe2\x80\xae\xc2\x9b31m";
    let name = |end: &[u8]| OsString::from_vec([b"odd", hostile, end].concat());
    let names =
        [name(b".x.txt"), name(b"\xff.1.txt"), name(b"dir.2.txt"), name(b"fifo.3.txt"), name(b"bad.4.txt")];
    fs::create_dir(site.input_dir().join(&names[2])).unwrap();
    assert!(Command::new("mkfifo").arg(site.input_dir().join(&names[3])).status().unwrap().success());
    // One name is found by the listing, one by the watcher.
    fs::write(site.input_dir().join(&names[0]), "no 1\n").unwrap();
    fs::write(site.input_dir().join(&names[1]), "no 1\n").unwrap();
    let mut instance = site.start();
    site.worker().ready();
    fs::write(site.input_dir().join(&names[4]), b"\x1b[31mnospace\n\xff 1\ngood 1\n").unwrap();
    site.database().expect(ATTRS, &["good"]);
    let later = [name(b"later.x.txt"), name(b"later\xff.1.txt")];
    for later in &later {
        fs::write(site.input_dir().join(later), "no 1\n").unwrap();
    }
    let mut worker = site.worker();
    worker.send(b"\x1b[31mhello\n").unwrap();
    assert_eq!(worker.reply(), Reply::Closed);
    lives(&site, &mut instance);
    let log = fs::read(site.log_path()).unwrap();
    let text = String::from_utf8(log).expect("the log is UTF-8");
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("2026-01-01 ERROR")), "{text:?}");
    for what in ["not a decimal number", "not utf-8: rename", "a directory", "a fifo", "there is no space"] {
        assert!(text.contains(what) || text.contains("not a regular file"), "{what}: {text}");
    }
    // The message names the process of the closed worker.
    let dropped = text.lines().find(|line| line.contains("worker connection closed")).expect("a line");
    let me = format!("pid {} uid {}", std::process::id(), rustix::process::getuid().as_raw());
    assert!(dropped.contains(&me) && dropped.contains("not a request"), "{dropped}");
}

/// CONTRACT QE01.
#[test]
fn what_is_not_a_request_is_counted_and_logged_at_intervals() {
    let site = site();
    let _instance = site.start();
    let begun = Instant::now();
    for text in ["GET / HTTP/1.1\r\n", "DONE a\n", "DONE a x\n"].iter().cycle().take(30) {
        let mut worker = site.worker();
        worker.send(text.as_bytes()).expect("it listens");
        assert_eq!(worker.reply(), Reply::Closed);
    }
    eventually("the count", || site.metric("queue/worker_socket", "malformed") == 30);
    let lines = site.log().matches("worker connection closed").count() as u64;
    assert!((1..=1 + begun.elapsed().as_secs() / 10).contains(&lines), "{lines}: {}", site.log());
}
