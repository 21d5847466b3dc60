//! What a crowd at the admin endpoint, and strangers who do not get on with it, cost a worker of the queue.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use orchestrator_harness::{TestEnv, Worker, open_stalled_connections, wave};
use rustix::process::nice;
use serde_json::{Value, json};

use crate::calibration::median;

/// Readers that have a stream at once.
const SEATS: usize = 16;
/// Readers that come in one round, in waves.
const CROWD: usize = 2_000;
const WAVE: usize = 100;
const ROUNDS: usize = 5;

/// The answer to READY is timed in calm and beside strangers, turn about; ratios are medians of the rounds.
pub(crate) fn run(binary: &Path) -> Result<Value> {
    let site = TestEnv::new(std::path::absolute(binary)?)
        .set("admin.listen=127.0.0.1:0")
        .set(&format!("admin.max_event_clients={SEATS}"));
    let _instance = site.start();
    let address = site.admin_tcp();
    let mut worker = site.worker();
    let (mut calm, mut crowd, mut siege) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let p99 = beside(&mut worker, || ());
        crowd.push(
            beside(&mut worker, || (0..CROWD / WAVE).for_each(|_| drop(wave(address, WAVE, SEATS)))) / p99,
        );
        siege.push(beside(&mut worker, || drop(open_stalled_connections(address))) / p99);
        calm.push(p99);
    }
    let rounded = |ratio: f64| (ratio * 100.0).round() / 100.0;
    Ok(json!({
        "bench": "strangers",
        "ready_p99_us": median(calm).round(),
        "crowd_of_calm": rounded(median(crowd)),
        "siege_of_calm": rounded(median(siege)),
    }))
}

/// The worker's 99th of a hundred answers in a typical span of 500 while `others` are there, in microseconds: a moment's noise of the
/// machine is in one span, what others do is in all of them.
fn beside(worker: &mut Worker, others: impl FnOnce() + Send) -> f64 {
    let over = AtomicBool::new(false);
    let mut took = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Strangers are on other machines: what they take of this one's processors is no cost of the endpoint's. Threads that
            // this one begins are as nice.
            let _ = nice(19);
            others();
            over.store(true, SeqCst);
        });
        while !over.load(SeqCst) || took.len() < 1_000 {
            let began = Instant::now();
            worker.ready();
            took.push(began.elapsed().as_secs_f64() * 1e6);
            // The pace of a worker: one that asks all the time would measure itself.
            thread::sleep(Duration::from_millis(2));
        }
    });
    let p99 = |span: &mut [f64]| {
        span.sort_by(f64::total_cmp);
        span[span.len() * 99 / 100]
    };
    median(took.chunks_mut(500).map(p99).collect())
}
