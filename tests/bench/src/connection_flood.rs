//! Latency of a queue worker while event readers or stalled connections flood the admin endpoint.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use orchestrator_harness::{TestEnv, Worker, open_event_readers, open_stalled_connections};
use rustix::process::nice;
use serde_json::{Value, json};

use crate::calibration::median;

/// Limit of concurrent event streams.
const MAX_STREAMS: usize = 16;
/// Readers of one round, and of one flood within it.
const READERS: usize = 2_000;
const FLOOD: usize = 100;
const ROUNDS: usize = 5;

/// Measures the latency of READY without a flood, beside readers and beside stalled connections in turn.
///
/// Ratios are medians of the rounds.
pub(crate) fn run(binary: &Path) -> Result<Value> {
    let env = TestEnv::new(std::path::absolute(binary)?)
        .set("admin.listen=127.0.0.1:0")
        .set(&format!("admin.max_event_clients={MAX_STREAMS}"));
    let _instance = env.start();
    let address = env.admin_tcp();
    let mut worker = env.worker();
    let (mut calm, mut readers, mut stalled) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let p99 = beside(&mut worker, || ());
        readers.push(
            beside(&mut worker, || {
                (0..READERS / FLOOD).for_each(|_| drop(open_event_readers(address, FLOOD, MAX_STREAMS)))
            }) / p99,
        );
        stalled.push(beside(&mut worker, || drop(open_stalled_connections(address))) / p99);
        calm.push(p99);
    }
    Ok(json!({
        "bench": "connection-flood",
        "ready_p99_us": median(calm).round(),
        "readers_of_calm": rounded(median(readers)),
        "stalled_of_calm": rounded(median(stalled)),
    }))
}

/// Returns the worker's p99 latency in a typical span of 500 requests while `others` runs, microseconds.
///
/// The median over the spans removes noise of the machine, which affects few of them.
pub(crate) fn beside(worker: &mut Worker, others: impl FnOnce() + Send) -> f64 {
    let over = AtomicBool::new(false);
    let mut took = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Real clients are on other machines, so their processor time must not count.
            // Threads started here inherit the priority.
            let _ = nice(19);
            others();
            over.store(true, SeqCst);
        });
        while !over.load(SeqCst) || took.len() < 1_000 {
            let began = Instant::now();
            worker.ready();
            took.push(began.elapsed().as_secs_f64() * 1e6);
            // A pause between requests: without it the worker's own load would be measured.
            thread::sleep(Duration::from_millis(2));
        }
    });
    let p99 = |span: &mut [f64]| {
        span.sort_by(f64::total_cmp);
        span[span.len() * 99 / 100]
    };
    median(took.chunks_mut(500).map(p99).collect())
}

/// Rounds to two decimals.
pub(crate) fn rounded(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}
