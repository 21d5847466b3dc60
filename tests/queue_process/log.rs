//! The write-ahead log is used anew again and again, whoever keeps the store busy.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use orchestrator_harness::{Reply, TestEnv, wait_for};

/// Four times what the store lets it grow before it is moved.
const BOUND: u64 = 128 << 20;

/// How often the log began anew: the checkpoint sequence number of its header (sqlite.org/fileformat2.html, 4.1).
fn beginnings(log: &Path) -> Option<u32> {
    let mut number = [0; 4];
    File::open(log).ok()?.read_exact_at(&mut number, 12).ok()?;
    Some(u32::from_be_bytes(number))
}

#[test]
fn workers_that_never_rest_do_not_let_the_log_grow() {
    let site = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let rows = 150_000;
    let lines: String = (0..rows).map(|i| format!("package{i} 1.0 1.1\n")).collect();
    site.write("f.1.txt", lines);
    let _instance = site.start();
    // Counting rows all the time would keep the log from beginning anew.
    site.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    let log = site.path().join("queue.db-wal");
    // Idle for a moment it is cut to nothing (CONTRACT QD15), and counts from its start.
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut worker = site.worker();
                let mut reply = worker.ready();
                while !done.load(Relaxed) {
                    assert_ne!(reply, Reply::NoJobs, "more rows are needed for this");
                    reply = worker.done(reply.attr_path(), 0);
                }
            });
        }
        let first = wait_for("the log", || beginnings(&log));
        wait_for("the log to begin anew twice", || beginnings(&log).filter(|now| *now >= first + 2));
        done.store(true, Relaxed);
    });
    let size = std::fs::metadata(&log).unwrap().len();
    assert!(size < BOUND, "the log has {size} bytes");
}
