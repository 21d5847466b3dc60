//! The write-ahead log is reused from its start while workers keep the store busy.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use orchestrator_harness::{Reply, TestEnv, wait_for};

/// Four times the size at which the store starts a checkpoint.
const BOUND: u64 = 128 << 20;

/// Number of restarts of the log: the checkpoint sequence number of its header
/// (sqlite.org/fileformat2.html, 4.1).
fn log_restarts(log: &Path) -> Option<u32> {
    let mut number = [0; 4];
    File::open(log).ok()?.read_exact_at(&mut number, 12).ok()?;
    Some(u32::from_be_bytes(number))
}

#[test]
fn the_log_stays_short_under_busy_workers() {
    let site = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let rows = 150_000;
    let lines: String = (0..rows).map(|i| format!("package{i} 1.0 1.1\n")).collect();
    site.write("f.1.txt", lines);
    let _instance = site.start();
    // Continuous row counts would keep the log from being reused.
    site.database().expect("SELECT is_complete FROM fetcher_runs", &["1"]);
    let log = site.path().join("queue.db-wal");
    // When idle the log is truncated (CONTRACT QD15), and its number starts again.
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
        let first = wait_for("the log", || log_restarts(&log));
        wait_for("the log to be reused twice", || log_restarts(&log).filter(|now| *now >= first + 2));
        done.store(true, Relaxed);
    });
    let size = std::fs::metadata(&log).unwrap().len();
    assert!(size < BOUND, "the log has {size} bytes");
}
