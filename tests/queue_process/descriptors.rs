//! More clients than file descriptors (CONTRACT QR29): a fresh worker is answered, the files are still read, the process lives.

use std::fs;

use orchestrator_harness::{Reply, TestEnv, Worker, wait_for};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What the process may have; both limits, so that it cannot raise them.
const DESCRIPTORS: u64 = 1_024;
const CLIENTS: u64 = 1_200;

/// This process holds the other ends.
fn room_for_clients() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.current.unwrap_or(u64::MAX).max(CLIENTS + 200);
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum })
        .expect("a hard limit on open files of 1400 or more");
}

#[test]
fn r29_1200_idle_clients_against_1024_descriptors() {
    room_for_clients();
    let site = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator")).shell(&format!("ulimit -n {DESCRIPTORS}"));
    site.write("f.1.txt", "alpha 0 1\nbravo 0 1\n");
    let mut instance = site.start();
    let limits = fs::read_to_string(format!("/proc/{}/limits", instance.pid())).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(limit.split_whitespace().nth(4), Some("1024"), "{limit}");
    let mut idle: Vec<Worker> = (0..CLIENTS).map(|_| site.worker()).collect();
    // One after the other, a fresh worker is answered; so is one that stays connected and works.
    let mut busy = site.worker();
    let first = busy.ready();
    assert_ne!(first, Reply::NoJobs);
    for _ in 0..50 {
        assert_ne!(site.worker().done("nothing", 0), Reply::Closed);
    }
    assert_eq!(busy.done(first.attr_path(), 0), Reply::NoJobs, "it was not the one idle longest");
    // The rest of the process has descriptors left: files, database, the admin socket.
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
    // Those that were closed see an end, and come back as any worker does; those that were kept are answered.
    let first_out =
        wait_for("the client idle longest to see its end", || idle.first_mut().map(Worker::read_to_end));
    assert_eq!(first_out, b"");
    assert_eq!(idle.last_mut().unwrap().ready(), Reply::NoJobs);
    drop(idle);
    assert_eq!(site.worker().ready(), Reply::NoJobs);
    assert!(instance.terminate().success());
}
