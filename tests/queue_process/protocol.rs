//! The worker protocol on the real socket (CONTRACT QP01 to QP12), and the socket file.

use std::{
    fs,
    io::Write,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    process::{Command, Stdio},
};

use orchestrator_harness::{Reply, Worker, eventually};

use crate::site;

/// Exit code of a refused start.
const EX_CONFIG: i32 = 78;

fn job(attr_path: &str) -> Reply {
    Reply::Job { attr_path: attr_path.to_owned(), payload: "0 1".to_owned() }
}

const LOG: &str =
    "SELECT attr_path, started > 1000000000, finished IS NOT NULL, exit_code FROM log ORDER BY 1";

#[test]
fn p01_p02_bytewise_and_pipelined_requests_are_answered_in_order() {
    let site = site().set("telemetry.filter=debug");
    site.write("f1.1.txt", "alpha 0 1\nbravo 0 1\n");
    let _instance = site.start();
    let mut slow = site.worker();
    let mut seen = Vec::new();
    for byte in b"READY\n" {
        slow.send(&[*byte]).unwrap();
    }
    seen.push(slow.reply().attr_path().to_owned());
    for byte in format!("DONE {} 0\n", seen[0]).bytes() {
        slow.send(&[byte]).unwrap();
    }
    seen.push(slow.reply().attr_path().to_owned());
    seen.sort();
    assert_eq!(seen, ["alpha", "bravo"]);
    site.write("f2.2.txt", "charlie 0 1\n");
    site.database().expect("SELECT count(*) FROM queue", &["3"]);
    slow.send(b"DONE bravo 0\nDONE alpha 3\nREADY\nREADY\n").unwrap();
    let replies = [slow.reply(), slow.reply(), slow.reply(), slow.reply()];
    assert_eq!(replies, [job("charlie"), Reply::NoJobs, Reply::NoJobs, Reply::NoJobs]);
    assert_eq!(site.database().rows(LOG), ["alpha|1|1|3", "bravo|1|1|0", "charlie|1|0|NULL"]);
    eventually("debug lines with the path", || {
        let log = site.log();
        ["a job is handed out", "a job is reported as done"]
            .iter()
            .all(|text| log.lines().any(|line| line.contains(text) && line.contains("bravo")))
    });
}

#[test]
fn p03_p04_p05_an_invalid_request_closes_without_effect() {
    let site = site();
    site.write("f1.1.txt", "alpha 0 1\n");
    let _instance = site.start();
    for odd in [
        "",
        "READY\r",
        "READY ",
        " READY",
        "ready",
        "DONE",
        "DONE\talpha 0",
        "done alpha 0",
        "GET / HTTP/1.1",
        "DONE alpha",
        "DONE alpha x",
        "DONE alpha 1__0",
        "DONE alpha 9223372036854775808",
    ] {
        let mut worker = site.worker();
        worker.send(format!("{odd}\nREADY\n").as_bytes()).unwrap();
        assert_eq!(worker.read_to_end(), b"", "{odd:?}");
    }
    let mut worker = site.worker();
    worker.send(b"READY").unwrap();
    worker.finish();
    assert_eq!(worker.read_to_end(), b"", "READY without its newline");
    assert_eq!(site.worker().ready(), job("alpha"), "no READY above was executed");
    assert_eq!(site.database().rows(LOG), ["alpha|1|0|NULL"], "and no DONE");
}

#[test]
fn p07_p08_a_done_counts_from_any_worker_and_is_ignored_for_unknown_paths() {
    let site = site();
    site.write("f1.1.txt", "alpha 0 1\nbravo 0 1\n");
    let _instance = site.start();
    let mut first = site.worker();
    let taken = first.done("never.heard.of", 1);
    assert_ne!(taken, Reply::NoJobs);
    assert_eq!(first.done("", 1).attr_path().len(), 5, "an empty attribute path is a no-op, too");
    assert_eq!(site.database().rows("SELECT count(*) FROM log"), ["2"]);
    assert_eq!(site.worker().done(taken.attr_path(), 9), Reply::NoJobs, "who took it does not matter");
    let stored = format!("SELECT exit_code FROM log WHERE attr_path = '{}'", taken.attr_path());
    assert_eq!(site.database().rows(&stored), ["9"]);
}

#[test]
fn p09_a_request_has_at_most_65536_bytes() {
    let site = site();
    let _instance = site.start();
    let line = |bytes: usize| format!("DONE {} 0\n", "x".repeat(bytes - 7));
    let mut worker = site.worker();
    worker.send(line(65_536).as_bytes()).unwrap();
    assert_eq!(worker.reply(), Reply::NoJobs);
    // The process may close the connection while the test still sends.
    let _ = worker.send(line(65_537).as_bytes());
    assert_eq!(worker.read_to_end(), b"");
    let mut endless = site.worker();
    let _ = endless.send(&vec![b'x'; 300_000]);
    assert_eq!(endless.read_to_end(), b"");
    assert_eq!(site.worker().ready(), Reply::NoJobs);
}

/// CONTRACT QP10 like worker.bash: one line through socat, half close, read to the end.
#[test]
fn p10_a_half_close_by_socat_is_answered() {
    let site = site();
    site.write("f1.1.txt", "alpha 0 1\n");
    let _instance = site.start();
    let socat = |line: &str| {
        let mut child = Command::new("socat")
            .args(["-t5", "-", &format!("UNIX-CONNECT:{}", site.socket().display())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("socat is installed");
        child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(socat("READY\n"), "JOB alpha 0 1\n");
    assert_eq!(socat("DONE alpha 3\n"), "NOJOBS\n");
    assert_eq!(socat("DONE alpha 4"), "NOJOBS\n");
    assert_eq!(site.database().rows(LOG), ["alpha|1|1|4"]);
}

/// CONTRACT QP10, QP11: requests before an early half close are answered, and the end of one
/// connection does not affect others.
#[test]
fn p10_p11_a_half_close_is_answered_and_other_connections_continue() {
    let site = site();
    let _instance = site.start();
    let mut bystander = site.worker();
    assert_eq!(bystander.ready(), Reply::NoJobs);
    let mut worker = site.worker();
    worker.send(b"READY\nREADY\nDONE a 0").unwrap();
    worker.finish();
    assert_eq!(worker.read_to_end(), b"NOJOBS\nNOJOBS\nNOJOBS\n");
    drop(site.worker());
    assert_eq!(bystander.ready(), Reply::NoJobs);
}

#[test]
fn p12_a_stale_socket_is_replaced_with_the_mode_of_the_umask() {
    let site = site().shell("umask 027");
    drop(UnixListener::bind(site.socket()).unwrap());
    // A child process forked by a parallel test has the listener open until its exec.
    eventually("the listener to be closed", || UnixStream::connect(site.socket()).is_err());
    let instance = site.start();
    assert_eq!(site.worker().ready(), Reply::NoJobs);
    let mode = fs::metadata(site.socket()).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o750, "{mode:o}");
    instance.kill_nine();
    assert!(fs::metadata(site.socket()).unwrap().file_type().is_socket(), "left by the kill");
    let _instance = site.start();
    assert_eq!(site.worker().ready(), Reply::NoJobs);
}

/// The keys win over the umask, also when the socket is bound again.
#[test]
fn p12_mode_and_group_of_the_socket_are_configured() {
    let site = site().shell("umask 077").set("queue.socket_mode=0660").set("queue.socket_group=4711");
    // Only root can give the socket to a group of others.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let access = || {
        let metadata = fs::metadata(site.socket()).ok()?;
        Some((metadata.permissions().mode() & 0o7777, metadata.gid()))
    };
    let _instance = site.start();
    assert_eq!(access(), Some((0o660, 4_711)));
    fs::remove_file(site.socket()).unwrap();
    eventually("the socket to be bound again", || access() == Some((0o660, 4_711)));
    assert_eq!(site.worker().ready(), Reply::NoJobs);
}

#[test]
fn p12_another_kind_of_file_at_the_socket_path_is_refused() {
    let site = site();
    fs::write(site.socket(), "precious").unwrap();
    let mut instance = site.spawn();
    assert_eq!(instance.wait().code(), Some(EX_CONFIG));
    assert_eq!(fs::read(site.socket()).unwrap(), b"precious");
    assert!(site.log().contains("is not a socket"), "{}", site.log());
}

/// A socket with a listener is not replaced.
#[test]
fn p12_a_socket_with_a_listener_is_refused() {
    let site = site();
    let owner = UnixListener::bind(site.socket()).unwrap();
    let mut instance = site.spawn();
    assert_eq!(instance.wait().code(), Some(EX_CONFIG));
    assert!(site.log().contains("is served by another process"), "{}", site.log());
    owner.set_nonblocking(true).unwrap();
    while owner.accept().is_ok() {}
    let _client = UnixStream::connect(site.socket()).unwrap();
    eventually("the owner to be probed", || owner.accept().is_ok());
    drop(Worker::connect(&site.socket()));
}
