//! Rows of a catalog as jobs of the queue in the same process, in turn with the same rule without a handler,
//! and with jobs from a file for the same workers: which of the three is the limit.
//!
//! The server is the tests' stand-in, without a delay of its own.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result};
use clap::Args;
use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, Instance, JobWorkers, TestEnv, wait_for};
use serde_json::{Value, json};

use crate::{calibration::median, catalog::rate, ingester::process::cpu_s};

/// Rows of a rule that are claimed at a time, and jobs in flight.
const KEYS: &str = "limit = 512\nconcurrency = 512\n";
const LIMIT: &str = "[[queue.limit]]\nfetcher = \"catalog.*\"\nin_flight = 1000\n";

/// Options of the pipeline bench.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Rows of each round
    #[arg(long, default_value_t = 2_000)]
    rows: u32,
    /// Workers of the queue
    #[arg(long, default_value_t = 64)]
    workers: usize,
    /// Rounds with the queue, and without a handler, in turn
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Figures of a round with a rule.
struct Round {
    /// Rows a second.
    rate: f64,
    /// Part of the time in which the server, which has one thread at work at a time, was busy.
    server_busy: f64,
    /// Writes of the rule, claims and settlements, for each row.
    writes: f64,
}

pub(crate) fn run(binary: &Path, options: &Options) -> Result<Value> {
    let binary = &std::fs::canonicalize(binary).context("find the binary: build it with --profile dist")?;
    let (mut jobs, mut alone, mut queue) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        alone.push(of_rule(binary, options, "")?);
        jobs.push(of_rule(binary, options, "handler = { kind = \"queue\", attr_path = \"$row.id\" }\n")?);
        queue.push(of_queue(binary, options));
    }
    let figure = |rounds: &[Round], of: fn(&Round) -> f64| rounded(rounds.iter().map(of).collect());
    let ratios =
        |others: Vec<f64>| rounded(jobs.iter().zip(others).map(|(job, other)| job.rate / other).collect());
    Ok(json!({
        "bench": "pipeline", "rows": options.rows, "workers": options.workers,
        "jobs_per_s": figure(&jobs, |round| round.rate),
        "without_handler_per_s": figure(&alone, |round| round.rate),
        "queue_alone_per_s": rounded(queue.clone()),
        "of_the_catalog_alone": ratios(alone.iter().map(|round| round.rate).collect()),
        "of_the_queue_alone": ratios(queue),
        "server_busy": figure(&jobs, |round| round.server_busy),
        "server_busy_without_handler": figure(&alone, |round| round.server_busy),
        "writes_per_row": figure(&jobs, |round| round.writes),
        "writes_per_row_without_handler": figure(&alone, |round| round.writes),
    }))
}

fn rounded(figures: Vec<f64>) -> f64 {
    (median(figures) * 100.0).round() / 100.0
}

/// Runs a rule with `handler`.
fn of_rule(binary: &Path, options: &Options, handler: &str) -> Result<Round> {
    let server = Ermrest::start(&[]);
    let env = CatalogEnv::new(binary, &server).rule(FULL_RULE).rule(KEYS).rule(handler).rule(LIMIT);
    let mut command = env.base().command();
    command.arg("--config").arg(env.write());
    let instance = Instance::spawn(command);
    instance.await_service(env.base());
    let _workers = JobWorkers::start(env.base().socket(), options.workers, |_, _| 0);
    wait_for("the first poll", || env.rule_status("work")["polls"].as_u64().filter(|polls| *polls > 0));
    let used = cpu_s(server.pid())?;
    let rate = rate(&server, options.rows);
    let server_busy = (cpu_s(server.pid())? - used) * rate / f64::from(options.rows);
    let writes = server.response_count("PUT", 200) as f64 / f64::from(options.rows);
    Ok(Round { rate, server_busy, writes })
}

/// Jobs a second of the same workers, from a file.
fn of_queue(binary: &Path, options: &Options) -> f64 {
    let env = TestEnv::new(binary);
    let _instance = env.start();
    let jobs: String = (0..options.rows).map(|job| format!("job{job} 1\n")).collect();
    env.write("bench.1.txt", jobs);
    wait_for("the jobs to be stored", || {
        (env.metric("queue/queue_store", "ingested") == u64::from(options.rows)).then_some(())
    });
    let begun = Instant::now();
    let workers = JobWorkers::start(env.socket(), options.workers, |_, _| 0);
    wait_for("all jobs to be taken", || (workers.count() == options.rows as usize).then_some(()));
    f64::from(options.rows) / begun.elapsed().as_secs_f64()
}
