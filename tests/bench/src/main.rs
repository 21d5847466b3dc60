//! Benches: see README.md beside this crate.

mod calibration;
mod catalog;
mod connection_flood;
mod console;
mod ingester;
mod load;
mod pipeline;
mod producer;
mod provenance;
mod questions;
mod queue;
mod shared_queue;
mod stall;
mod subject;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde_json::{Value, json};

use crate::queue::Program;

#[derive(Parser)]
struct Arguments {
    /// The release binary
    #[arg(long, global = true, default_value = "target/dist/orchestrator")]
    binary: PathBuf,
    /// Another program with its arguments, to be given the same three paths
    #[arg(long, global = true)]
    other: Option<String>,
    /// A program to measure right before the binary, where it can: with the same three paths, and files
    /// linked into place
    #[arg(long, global = true)]
    beside: Option<String>,
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
    /// NOJOBS on a queue whose only ready jobs are held back by a limit
    Limited {
        #[arg(long, default_value_t = 1_000_000)]
        rows: usize,
        #[arg(long, default_value_t = 100_000)]
        limited: usize,
    },
    /// Deleting a file, READY meanwhile
    Delete {
        #[arg(long, default_value_t = 333_000)]
        rows: usize,
        /// Rows of another file, which stay
        #[arg(long, default_value_t = 100_000)]
        kept: usize,
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
    /// Rows of a catalog as jobs of the queue, beside the catalog alone
    Pipeline(pipeline::Options),
    /// Latency of a worker during floods of connections to the admin endpoint; not part of `all`
    ConnectionFlood,
    /// Cost of the admin endpoint, idle and with open pages; not part of `all`
    Console(console::Options),
    /// Run the sink of the producer bench
    #[command(hide = true)]
    FaktorySink(producer::Sink),
    /// Run the relay that the ingester is compared with
    #[command(hide = true)]
    Relay(ingester::Relay),
    /// The queue on PostgreSQL, beside a bare client and other queues; not part of `all`
    SharedQueue(shared_queue::Options),
    /// Questions of operators to both stores; not part of `all`
    Questions(questions::Options),
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
            arguments.report(&Bench::Limited { rows: 1_000_000, limited: 100_000 })?;
            arguments.report(&Bench::Delete { rows: 33_333, kept: 66_667 })?;
            arguments.report(&Bench::Delete { rows: 333_000, kept: 100_000 })?;
            arguments.report(&Bench::Restart { rows: 1_000_000 })
        }
        Bench::Ingester(ref options) => print(&ingester::run(&arguments.binary, options)?),
        Bench::Relay(ref relay) => relay.run(),
        Bench::Producer(ref options) => print(&producer::run(&arguments.binary, options)?),
        Bench::FaktorySink(ref sink) => sink.run(),
        Bench::Catalog(ref options) => print(&catalog::run(&arguments.binary, options)?),
        Bench::Pipeline(ref options) => print(&pipeline::run(&arguments.binary, options)?),
        Bench::Console(ref options) => print(&console::run(&arguments.binary, options)?),
        Bench::SharedQueue(ref options) => print(&shared_queue::run(&arguments.binary, options)?),
        Bench::Questions(ref options) => print(&questions::run(options)?),
        Bench::ConnectionFlood => print(&connection_flood::run(&arguments.binary)?),
        ref one => arguments.report(one),
    }
}

impl Bench {
    /// Returns true if the bench needs only the queue's contract, so that it can run other programs.
    fn is_of_any_program(&self) -> bool {
        matches!(self, Self::Workers { .. } | Self::Oneshot | Self::Ingest { .. } | Self::Delete { .. })
    }
}

/// Prints one line of results.
fn print(results: &Value) -> Result<()> {
    use std::io::Write;
    Ok(writeln!(std::io::stdout().lock(), "{results}")?)
}

impl Arguments {
    fn report(&self, bench: &Bench) -> Result<()> {
        let base = std::env::temp_dir();
        let mut commits = vec![calibration::durable_commits(&base)?];
        let program = match &self.other {
            Some(other) => Program::other(other),
            None => Program::ours(&self.binary),
        };
        let beside = match &self.beside {
            Some(beside) if bench.is_of_any_program() => {
                Some(self.run(&Program::other(beside), bench, &mut commits)?)
            }
            _ => None,
        };
        let mut results = self.run(&program, bench, &mut commits)?;
        if let Some(beside) = beside {
            for rate in ["ops_per_s", "rows_per_s"] {
                if let (Some(ours), Some(theirs)) = (results[rate].as_f64(), beside[rate].as_f64()) {
                    results["times_beside"] = json!((ours / theirs * 10.0).round() / 10.0);
                }
            }
            results["beside"] = beside;
        }
        commits.push(calibration::durable_commits(&base)?);
        let c = calibration::median(commits);
        let echo = calibration::echo_round_trips()?;
        results["durable_commits_per_s"] = json!(c.round());
        results["echo_round_trips_per_s"] = json!(echo.round());
        if let Some(ops) = results.get("ops_per_s").and_then(Value::as_f64) {
            results["ops_per_commit"] = json!((ops / c * 100.0).round() / 100.0);
        }
        print(&results)
    }

    fn run(&self, program: &Program, bench: &Bench, commits: &mut Vec<f64>) -> Result<Value> {
        match *bench {
            Bench::All
            | Bench::Ingester(_)
            | Bench::Relay(_)
            | Bench::ConnectionFlood
            | Bench::Console(_)
            | Bench::Catalog(_)
            | Bench::Pipeline(_)
            | Bench::Producer(_)
            | Bench::SharedQueue(_)
            | Bench::Questions(_)
            | Bench::FaktorySink(_) => Ok(json!({})),
            Bench::Workers { workers } => program.workers(workers, false, commits),
            Bench::Oneshot => program.workers(8, true, commits),
            Bench::Ingest { rows } => program.ingest(rows),
            Bench::Provenance { rows } => provenance::run(&self.binary, rows),
            Bench::Nojobs { rows } => program.nojobs(rows),
            Bench::Limited { rows, limited } => Program::limited(&self.binary, rows, limited),
            Bench::Delete { rows, kept } => program.delete(rows, kept),
            Bench::Restart { rows } => program.restart(rows),
        }
    }
}
