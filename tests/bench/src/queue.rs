//! Benches of the queue, of any program that takes its three paths.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use orchestrator_harness::{Reply, Worker};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use crate::{
    calibration, load,
    stall::{Stalls, Watch},
    subject::Subject,
};

/// Program under measurement.
pub(crate) struct Program {
    /// With its first arguments.
    command: Vec<String>,
    /// The program notices files renamed into the input directory; otherwise they are linked in.
    sees_renames: bool,
}

impl Program {
    /// The release binary.
    pub(crate) fn ours(binary: &Path) -> Self {
        let binary = binary.display().to_string();
        Self {
            command: vec![binary, "as".to_owned(), "nixpkgs-update-supervisor".to_owned()],
            sees_renames: true,
        }
    }

    /// Another program.
    pub(crate) fn other(command: &str) -> Self {
        Self { command: command.split_whitespace().map(str::to_owned).collect(), sees_renames: false }
    }

    fn prepare(&self) -> Result<Subject> {
        Subject::new(self.command.clone(), self.sees_renames, &std::env::temp_dir())
    }

    /// DONE->JOB round trips over kept connections, or with one for each request.
    pub(crate) fn workers(&self, workers: usize, oneshot: bool, commits: &mut Vec<f64>) -> Result<Value> {
        let mut subject = self.prepare()?;
        subject.start()?;
        subject.publish("bench.1.txt", 400_000)?;
        subject.await_rows(1, 400_000);
        let mut rates = Vec::new();
        let mut p99 = Vec::new();
        for round in 0..3 {
            if round == 1 {
                commits.push(calibration::durable_commits(&std::env::temp_dir())?);
            }
            let mut load = load::run(&subject.socket(), workers, Duration::from_secs(4), oneshot)?;
            rates.push(load.ops_per_s());
            p99.push(load.quantile_ms(0.99));
        }
        Ok(json!({
            "bench": if oneshot { "oneshot" } else { "workers" },
            "workers": workers,
            "ops_per_s": calibration::median(rates).round(),
            "p99_ms": calibration::median(p99),
        }))
    }

    /// A complete file, READY meanwhile.
    pub(crate) fn ingest(&self, rows: usize) -> Result<Value> {
        let base = std::env::temp_dir();
        let mut raw = vec![calibration::raw_rows(&base, rows)?];
        let mut subject = self.prepare()?;
        subject.start()?;
        subject.first_answer();
        let (seconds, waits) = while_asked(&subject, || {
            // The file is there before the clock starts; the rename is the beginning.
            let begun = publish_timed(&subject, rows)?;
            subject.await_rows(1, i64::try_from(rows)?);
            Ok(begun.elapsed().as_secs_f64())
        })?;
        raw.push(calibration::raw_rows(&base, rows)?);
        let (raw, rate) = (calibration::median(raw), rows as f64 / seconds);
        Ok(json!({
            "bench": "ingest",
            "rows": rows,
            "rows_per_s": rate.round(),
            "raw_rows_per_s": raw.round(),
            "rows_per_raw_row": (rate / raw * 100.0).round() / 100.0,
            "ready_p99_ms": waits.p99_ms,
            "ready_max_ms": waits.max_ms,
            "machine_sync_max_ms": waits.machine.sync_max_ms,
            "machine_sleep_max_ms": waits.machine.sleep_max_ms,
            "peak_mib": subject.memory_mib("VmHWM")?.round(),
        }))
    }

    /// NOJOBS on a drained queue. The program and the worker have a processor each: if the scheduler places
    /// them, the figure of one binary varies by a factor of three.
    pub(crate) fn nojobs(&self, rows: usize) -> Result<Value> {
        let mut subject = self.prepare()?;
        subject.start()?;
        subject.publish("bench.1.txt", rows)?;
        subject.await_rows(1, i64::try_from(rows)?);
        subject.kill()?;
        drain(&subject.path("queue.db"), 0)?;
        let [first, second] = two_processors()?;
        on_processor(first, || subject.start())?;
        subject.first_answer();
        let latencies = on_processor(second, || unsuccessful(&mut subject.worker()))?;
        Ok(
            json!({ "bench": "nojobs", "rows": rows, "median_ms": quantile(&latencies, 0.5), "p99_ms": quantile(&latencies, 0.99) }),
        )
    }

    /// NOJOBS of the release binary on a queue whose only ready jobs are `limited` ones of a full limit.
    pub(crate) fn limited(binary: &Path, rows: usize, limited: usize) -> Result<Value> {
        let mut subject = Subject::configured(binary, "[queue]\n")?;
        subject.start()?;
        subject.publish("bench.1.txt", rows)?;
        subject.await_rows(1, i64::try_from(rows)?);
        subject.kill()?;
        drain(&subject.path("queue.db"), limited)?;
        subject.configure("[[queue.limit]]\nmatch = \"*\"\nin_flight = 2\n")?;
        // This start scans the queue once, since the limits have changed.
        subject.start()?;
        let mut worker = subject.worker();
        for _ in 0..2 {
            ensure!(worker.ready() != Reply::NoJobs, "the limit allows two jobs");
        }
        let latencies = unsuccessful(&mut worker)?;
        Ok(json!({
            "bench": "limited", "rows": rows, "limited": limited,
            "median_ms": quantile(&latencies, 0.5), "p99_ms": quantile(&latencies, 0.99),
        }))
    }

    /// Deleting a file, READY meanwhile.
    pub(crate) fn delete(&self, rows: usize, kept: usize) -> Result<Value> {
        let mut subject = self.prepare()?;
        subject.start()?;
        subject.publish("keep.1.txt", kept)?;
        let left = i64::try_from(kept)?;
        subject.await_rows(1, left);
        subject.publish("bench.2.txt", rows)?;
        subject.await_rows(2, i64::try_from(rows)? + left);
        let (seconds, waits) = while_asked(&subject, || {
            let begun = Instant::now();
            std::fs::remove_file(subject.path("fetchers/bench.2.txt"))?;
            subject.await_rows(1, left);
            Ok(begun.elapsed().as_secs_f64())
        })?;
        Ok(json!({
            "bench": "delete", "rows": rows, "kept": kept, "seconds": seconds,
            "rows_per_s": (rows as f64 / seconds).round(),
            "ready_p99_ms": waits.p99_ms, "ready_max_ms": waits.max_ms,
            "machine_sync_max_ms": waits.machine.sync_max_ms, "machine_sleep_max_ms": waits.machine.sleep_max_ms,
        }))
    }

    /// Restart to the first answer, and memory.
    pub(crate) fn restart(&self, rows: usize) -> Result<Value> {
        let mut subject = self.prepare()?;
        subject.start()?;
        subject.publish("bench.1.txt", rows)?;
        subject.await_rows(1, i64::try_from(rows)?);
        let peak = subject.memory_mib("VmHWM")?;
        subject.kill()?;
        let mut firsts = Vec::new();
        for _ in 0..5 {
            subject.start()?;
            firsts.push(subject.first_answer().0);
            subject.kill()?;
        }
        subject.start()?;
        subject.first_answer();
        load::run(&subject.socket(), 16, Duration::from_secs(2), false)?;
        Ok(json!({
            "bench": "restart", "rows": rows,
            "first_answer_s": calibration::median(firsts),
            "peak_mib_ingest": peak.round(),
            "rss_mib_after_load": subject.memory_mib("VmRSS")?.round(),
        }))
    }
}

/// Asks 10,000 times while no job can be handed out. Returns the latencies in milliseconds, sorted.
pub(crate) fn unsuccessful(worker: &mut Worker) -> Result<Vec<f64>> {
    let mut latencies = Vec::new();
    for _ in 0..10_000 {
        let begun = Instant::now();
        ensure!(worker.ready() == Reply::NoJobs, "a job was handed out");
        latencies.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

/// The same processor twice if this process may use only one.
fn two_processors() -> Result<[usize; 2]> {
    let allowed = sched_getaffinity(None)?;
    let mut processors = (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor));
    let first = processors.next().context("a processor")?;
    Ok([first, processors.next().unwrap_or(first)])
}

/// Runs `work` on one processor, with all threads and processes that it starts.
fn on_processor<T>(processor: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = sched_getaffinity(None)?;
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only)?;
    let done = work();
    sched_setaffinity(None, &before)?;
    done
}

/// Leaves the database as if every job but `left` had been handed out and finished; row by row that would
/// take minutes. With jobs left, the program must rebuild its table of groups.
fn drain(database: &Path, left: usize) -> Result<()> {
    let db = rusqlite::Connection::open(database)?;
    db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.execute_batch(&format!(
        "BEGIN; UPDATE queue SET is_dequeued = 1, last_started = 1 WHERE rowid > {left};
         INSERT INTO log SELECT DISTINCT attr_path, 1, 2, 0 FROM queue WHERE is_dequeued = 1;
         DELETE FROM orchestrator_ready; COMMIT; PRAGMA wal_checkpoint(TRUNCATE);"
    ))?;
    Ok(())
}

/// Stages the file, then moves it in and starts the clock.
fn publish_timed(subject: &Subject, rows: usize) -> Result<Instant> {
    subject.publish("../staged.txt", rows)?;
    let begun = Instant::now();
    subject.move_in("staged.txt", "bench.1.txt")?;
    Ok(begun)
}

/// Latency of responses during another load, and the stalls of the machine itself.
struct Waits {
    p99_ms: f64,
    max_ms: f64,
    machine: Stalls,
}

/// Carries out `work`, which gives the seconds that it took, while somebody asks all the time.
fn while_asked(subject: &Subject, work: impl FnOnce() -> Result<f64>) -> Result<(f64, Waits)> {
    let done = AtomicBool::new(false);
    let watch = Watch::begin(&std::env::temp_dir())?;
    let (worked, mut latencies) = std::thread::scope(|scope| {
        let asker = scope.spawn(|| asks(subject, &done));
        let worked = work();
        done.store(true, Relaxed);
        (worked, asker.join().expect("the asker does not panic"))
    });
    let machine = watch.end()?;
    latencies.sort_by(f64::total_cmp);
    let waits = Waits { p99_ms: quantile(&latencies, 0.99), max_ms: quantile(&latencies, 1.0), machine };
    Ok((worked?, waits))
}

/// READY every 2 ms until `done`; latencies in milliseconds.
fn asks(subject: &Subject, done: &AtomicBool) -> Vec<f64> {
    let mut worker = subject.worker();
    let mut latencies = Vec::new();
    while !done.load(Relaxed) {
        let begun = Instant::now();
        worker.ready();
        latencies.push(begun.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(2));
    }
    latencies
}

pub(crate) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let index = ((sorted.len().saturating_sub(1)) as f64 * q).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}
