//! More clients than file descriptors (CONTRACT QR29): new workers are answered, files are read,
//! and the process continues.

use std::fs;

use orchestrator_harness::{Reply, TestEnv, Worker, wait_for};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Soft and hard limit of the process's descriptors, so that it cannot raise the limit.
const DESCRIPTORS: u64 = 1_024;
const CLIENTS: u64 = 1_200;

/// Raises this process's own limit, since it holds the clients' ends.
fn raise_own_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.current.unwrap_or(u64::MAX).max(CLIENTS + 200);
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
        .expect("a hard limit on open files of 1400 or more");
}

#[test]
fn r29_idle_connections_are_closed_at_the_descriptor_limit() {
    raise_own_descriptor_limit();
    let site = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).shell(&format!("ulimit -n {DESCRIPTORS}"));
    site.write("f.1.txt", "alpha 0 1\nbravo 0 1\n");
    let mut instance = site.start();
    let limits = fs::read_to_string(format!("/proc/{}/limits", instance.pid())).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(limit.split_whitespace().nth(4), Some("1024"), "{limit}");
    let mut idle: Vec<Worker> = (0..CLIENTS).map(|_| site.worker()).collect();
    // New workers are answered one after the other, and so is one that stays connected and works.
    let mut busy = site.worker();
    let first = busy.ready();
    assert_ne!(first, Reply::NoJobs);
    for _ in 0..50 {
        assert_ne!(site.worker().done("nothing", 0), Reply::Closed);
    }
    assert_eq!(busy.done(first.attr_path(), 0), Reply::NoJobs, "it was not the one idle longest");
    // Descriptors are left for files, the database and the admin socket.
    site.write("g.2.txt", "charlie 0 1\n");
    site.database().expect("SELECT count(*) FROM queue", &["3"]);
    assert_eq!(busy.ready().attr_path(), "charlie");
    let open = fs::read_dir(format!("/proc/{}/fd", instance.pid())).unwrap().count();
    assert!(open < 1_024, "{open}");
    assert!(site.metric("queue/worker_socket", "evicted") >= CLIENTS - DESCRIPTORS);
    for child in ["worker_socket", "queue_store", "reader", "inotify"] {
        assert_eq!(site.node(&format!("queue/{child}"))["restarts"], 0, "{}", site.log());
    }
    assert!(instance.ended().is_none());
    // Closed clients read an end and may connect again; kept clients are answered.
    let first_out =
        wait_for("the longest idle client to be closed", || idle.first_mut().map(Worker::read_to_end));
    assert_eq!(first_out, b"");
    assert_eq!(idle.last_mut().unwrap().ready(), Reply::NoJobs);
    drop(idle);
    assert_eq!(site.worker().ready(), Reply::NoJobs);
    assert!(instance.terminate().success());
}
