//! Rows of a catalog as jobs of the queue in the same process, beside the same rule without a handler on the same server, and
//! beside the queue's own rate: which of the three is the limit.
//!
//! The server is the tests' stand-in, without a delay of its own.

use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use orchestrator_harness::{CatalogEnv, Ermrest, FULL_RULE, Instance, JobWorkers, wait_for};
use serde_json::{Value, json};

use crate::{calibration::median, catalog::rate};

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

/// The figures.
pub(crate) fn run(binary: &Path, options: &Options) -> Result<Value> {
    let binary = &std::fs::canonicalize(binary).context("find the binary: build it with --profile dist")?;
    let (mut jobs, mut alone, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let without = of_rule(binary, options, "");
        let with = of_rule(binary, options, "handler = { kind = \"queue\", attr_path = \"$row.id\" }\n");
        times.push(with / without);
        alone.push(without);
        jobs.push(with);
    }
    let rounded = |figures: Vec<f64>| (median(figures) * 100.0).round() / 100.0;
    Ok(json!({
        "bench": "pipeline", "rows": options.rows, "workers": options.workers,
        "jobs_per_s": rounded(jobs), "without_handler_per_s": rounded(alone), "of_the_catalog_alone": rounded(times),
    }))
}

/// Rows a second of a rule with `handler`.
fn of_rule(binary: &Path, options: &Options, handler: &str) -> f64 {
    let server = Ermrest::start(&[]);
    let env = CatalogEnv::new(binary, &server).rule(FULL_RULE).rule(KEYS).rule(handler).rule(LIMIT);
    let mut command = env.base().command();
    command.arg("--config").arg(env.write());
    let instance = Instance::spawn(command);
    instance.await_service(env.base());
    let _workers = JobWorkers::start(env.base().socket(), options.workers, |_, _| 0);
    wait_for("the first poll", || env.rule_status("work")["polls"].as_u64().filter(|polls| *polls > 0));
    rate(&server, options.rows)
}
