//! Benches: see README.md beside this crate.

mod calibration;
mod catalog;
mod ingester;
mod load;
mod producer;
mod provenance;
mod stall;
mod strangers;
mod subject;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde_json::{Value, json};

use crate::{stall::Watch, subject::Subject};

#[derive(Parser)]
struct Arguments {
    /// The release binary
    #[arg(long, global = true, default_value = "target/release/orchestrator")]
    binary: PathBuf,
    /// Another program with its arguments, to be given the same three paths
    #[arg(long, global = true)]
    other: Option<String>,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Everything in turn
    All,
    /// DONE->JOB round trips over kept connections
    Workers {
        #[arg(long, default_value_t = 64)]
        workers: usize,
    },
    /// DONE->JOB with a connection per request, 8 workers
    Oneshot,
    /// A complete file, READY meanwhile
    Ingest {
        #[arg(long, default_value_t = 100_000)]
        rows: usize,
    },
    /// NOJOBS on a drained queue
    Nojobs {
        #[arg(long, default_value_t = 100_000)]
        rows: usize,
    },
    /// Deleting a file, READY meanwhile
    Delete {
        #[arg(long, default_value_t = 333_000)]
        rows: usize,
    },
    /// Provenance rows through a real broker into a real database; not part of `all`
    Provenance {
        #[arg(long, default_value_t = 750_000)]
        rows: usize,
    },
    /// Frames from a detector to workers; not part of `all`
    Ingester(ingester::Options),
    /// Jobs to a Faktory server; not part of `all`
    Producer(producer::Options),
    /// Rows claimed and completed on a catalog, beside the original; not part of `all`
    Catalog(catalog::Options),
    /// What strangers at the admin endpoint cost a worker; not part of `all`
    Strangers,
    /// A server for that
    #[command(hide = true)]
    FaktorySink(producer::Sink),
    /// What the ingester is compared with
    #[command(hide = true)]
    Relay(ingester::Relay),
    /// Restart to the first answer, and memory
    Restart {
        #[arg(long, default_value_t = 1_000_000)]
        rows: usize,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.bench {
        Bench::All => {
            for workers in [1, 64, 256] {
                arguments.report(&Bench::Workers { workers })?;
            }
            arguments.report(&Bench::Oneshot)?;
            for rows in [100_000, 1_000_000] {
                arguments.report(&Bench::Ingest { rows })?;
            }
            for rows in [100_000, 1_000_000] {
                arguments.report(&Bench::Nojobs { rows })?;
            }
            arguments.report(&Bench::Delete { rows: 333_000 })?;
            arguments.report(&Bench::Restart { rows: 1_000_000 })
        }
        Bench::Ingester(ref options) => say(&ingester::run(&arguments.binary, options)?),
        Bench::Relay(ref relay) => relay.run(),
        Bench::Producer(ref options) => say(&producer::run(&arguments.binary, options)?),
        Bench::FaktorySink(ref sink) => sink.run(),
        Bench::Catalog(ref options) => say(&catalog::run(&arguments.binary, options)?),
        Bench::Strangers => say(&strangers::run(&arguments.binary)?),
        ref one => arguments.report(one),
    }
}

/// One line of figures.
fn say(figures: &Value) -> Result<()> {
    use std::io::Write;
    Ok(writeln!(std::io::stdout().lock(), "{figures}")?)
}

impl Arguments {
    fn report(&self, bench: &Bench) -> Result<()> {
        let base = std::env::temp_dir();
        let mut commits = vec![calibration::durable_commits(&base)?];
        let mut figures = self.run(bench, &mut commits)?;
        commits.push(calibration::durable_commits(&base)?);
        let c = calibration::median(commits);
        let echo = calibration::echo_round_trips()?;
        figures["durable_commits_per_s"] = json!(c.round());
        figures["echo_round_trips_per_s"] = json!(echo.round());
        if let Some(ops) = figures.get("ops_per_s").and_then(Value::as_f64) {
            figures["ops_per_commit"] = json!((ops / c * 100.0).round() / 100.0);
        }
        say(&figures)
    }

    fn run(&self, bench: &Bench, commits: &mut Vec<f64>) -> Result<Value> {
        match *bench {
            Bench::All
            | Bench::Ingester(_)
            | Bench::Relay(_)
            | Bench::Strangers
            | Bench::Catalog(_)
            | Bench::Producer(_)
            | Bench::FaktorySink(_) => Ok(json!({})),
            Bench::Workers { workers } => self.workers(workers, false, commits),
            Bench::Oneshot => self.workers(8, true, commits),
            Bench::Ingest { rows } => self.ingest(rows),
            Bench::Provenance { rows } => provenance::run(&self.binary, rows),
            Bench::Nojobs { rows } => self.nojobs(rows),
            Bench::Delete { rows } => self.delete(rows),
            Bench::Restart { rows } => self.restart(rows),
        }
    }

    fn subject(&self) -> Result<Subject> {
        let command = match &self.other {
            Some(other) => other.split_whitespace().map(str::to_owned).collect(),
            None => vec![
                self.binary.display().to_string(),
                "as".to_owned(),
                "nixpkgs-update-supervisor".to_owned(),
            ],
        };
        Subject::new(command, &std::env::temp_dir())
    }

    fn workers(&self, workers: usize, oneshot: bool, commits: &mut Vec<f64>) -> Result<Value> {
        let mut subject = self.subject()?;
        subject.start()?;
        subject.publish("bench.1.txt", 400_000)?;
        if self.other.is_some() {
            // A program that does not watch renames is given the file in place.
            std::fs::copy(subject.path("fetchers/bench.1.txt"), subject.path("fetchers/copy.1.txt"))?;
        }
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

    fn ingest(&self, rows: usize) -> Result<Value> {
        let base = std::env::temp_dir();
        let mut raw = vec![calibration::raw_rows(&base, rows)?];
        let mut subject = self.subject()?;
        subject.start()?;
        subject.first_answer();
        let done = AtomicBool::new(false);
        let watch = Watch::begin(&base)?;
        let (seconds, mut latencies) = std::thread::scope(|scope| -> Result<_> {
            let asker = scope.spawn(|| asks(&subject, &done));
            // The file is there before the clock starts; the rename is the beginning.
            let begun = publish_timed(&subject, rows)?;
            subject.await_rows(1, i64::try_from(rows)?);
            let seconds = begun.elapsed().as_secs_f64();
            done.store(true, Relaxed);
            Ok((seconds, asker.join().expect("the asker does not panic")))
        })?;
        let stalls = watch.end()?;
        latencies.sort_by(f64::total_cmp);
        raw.push(calibration::raw_rows(&base, rows)?);
        let (raw, rate) = (calibration::median(raw), rows as f64 / seconds);
        Ok(json!({
            "bench": "ingest",
            "rows": rows,
            "rows_per_s": rate.round(),
            "raw_rows_per_s": raw.round(),
            "rows_per_raw_row": (rate / raw * 100.0).round() / 100.0,
            "ready_p99_ms": quantile(&latencies, 0.99),
            "ready_max_ms": quantile(&latencies, 1.0),
            "machine_sync_max_ms": stalls.sync_max_ms,
            "machine_sleep_max_ms": stalls.sleep_max_ms,
            "peak_mib": subject.memory_mib("VmHWM")?.round(),
        }))
    }

    fn nojobs(&self, rows: usize) -> Result<Value> {
        let mut subject = self.subject()?;
        subject.start()?;
        subject.publish("bench.1.txt", rows)?;
        subject.await_rows(1, i64::try_from(rows)?);
        subject.kill()?;
        drain(&subject.path("queue.db"))?;
        subject.start()?;
        subject.first_answer();
        let mut worker = subject.worker();
        let mut latencies: Vec<f64> = (0..2_000)
            .map(|_| {
                let begun = Instant::now();
                worker.ready();
                begun.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        latencies.sort_by(f64::total_cmp);
        Ok(
            json!({ "bench": "nojobs", "rows": rows, "median_ms": quantile(&latencies, 0.5), "p99_ms": quantile(&latencies, 0.99) }),
        )
    }

    fn delete(&self, rows: usize) -> Result<Value> {
        let mut subject = self.subject()?;
        subject.start()?;
        subject.publish("keep.1.txt", 100_000)?;
        subject.await_rows(1, 100_000);
        subject.publish("bench.2.txt", rows)?;
        subject.await_rows(2, i64::try_from(rows)? + 100_000);
        let done = AtomicBool::new(false);
        let watch = Watch::begin(&std::env::temp_dir())?;
        let (seconds, mut latencies) = std::thread::scope(|scope| -> Result<_> {
            let asker = scope.spawn(|| asks(&subject, &done));
            let begun = Instant::now();
            std::fs::remove_file(subject.path("fetchers/bench.2.txt"))?;
            subject.await_rows(1, 100_000);
            let seconds = begun.elapsed().as_secs_f64();
            done.store(true, Relaxed);
            Ok((seconds, asker.join().expect("the asker does not panic")))
        })?;
        let stalls = watch.end()?;
        latencies.sort_by(f64::total_cmp);
        Ok(json!({
            "bench": "delete", "rows": rows, "seconds": seconds,
            "ready_p99_ms": quantile(&latencies, 0.99), "ready_max_ms": quantile(&latencies, 1.0),
            "machine_sync_max_ms": stalls.sync_max_ms, "machine_sleep_max_ms": stalls.sleep_max_ms,
        }))
    }

    fn restart(&self, rows: usize) -> Result<Value> {
        let mut subject = self.subject()?;
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

/// Leaves the database as if every job had been handed out and finished; row by row that would take minutes.
fn drain(database: &std::path::Path) -> Result<()> {
    let db = rusqlite::Connection::open(database)?;
    db.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    db.execute_batch(
        "BEGIN; UPDATE queue SET is_dequeued = 1, last_started = 1;
         INSERT INTO log SELECT DISTINCT attr_path, 1, 2, 0 FROM queue;
         DELETE FROM orchestrator_group; COMMIT; PRAGMA wal_checkpoint(TRUNCATE);",
    )?;
    Ok(())
}

/// Stages the file, then moves it in and starts the clock.
fn publish_timed(subject: &Subject, rows: usize) -> Result<Instant> {
    subject.publish("../staged.txt", rows)?;
    let begun = Instant::now();
    std::fs::rename(subject.path("staged.txt"), subject.path("fetchers/bench.1.txt"))?;
    Ok(begun)
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

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let index = ((sorted.len().saturating_sub(1)) as f64 * q).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}
