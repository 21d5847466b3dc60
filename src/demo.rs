//! `orchestrator demo`: an instance in a temporary directory, under load and under faults, watched from outside.
//!
//! The instance is a process of its own, started from this binary. Everything else here is a client: fetchers write
//! files, workers speak the protocol of the worker socket, imports and injected panics use the command line and the
//! admin endpoint. At the end every job and row is accounted for.

mod faults;
mod instance;
mod jobs;
mod rows;

use std::{
    io::Write,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use jiff::SignedDuration;
use serde::Serialize;

use self::{faults::Faults, instance::Instance, jobs::Jobs, rows::Rows};
use crate::cli::exit_code::ExitCode;

/// Longest wait, after the load has ended, for jobs and rows that are still under way.
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArguments {
    /// End after this time, for example `20s` or `5m` [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    limit: Option<Duration>,
    /// Print only the final report, as JSON
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    Duration::try_from(parsed).map_err(|_| "the time must not be negative".to_owned())
}

/// Result of a demo.
#[derive(Debug, Serialize)]
struct Report {
    seconds: f64,
    jobs_listed: usize,
    jobs_done: usize,
    /// Hand-outs of a job that had been handed out before; allowed after a fault.
    jobs_repeated: usize,
    rows_sent: u64,
    rows_stored: u64,
    panics: u64,
    outages: u64,
    /// Starts of the process after the first one.
    process_restarts: u64,
    /// Jobs that were listed and never done, and rows that were sent and are not stored.
    lost: u64,
}

/// Runs a demo until its time is over or Ctrl-C.
///
/// # Errors
/// The temporary directory cannot be made, or the instance does not start.
pub(crate) fn run(arguments: &DemoArguments) -> Result<ExitCode> {
    let folder =
        tempfile::Builder::new().prefix("orchestrator-demo-").tempdir().context("cannot make a directory")?;
    let instance = Instance::start(folder.path())?;
    let say = |line: &str| {
        if !arguments.json {
            let _ = writeln!(std::io::stdout().lock(), "{line}");
        }
    };
    say(&format!("console  {}", instance.console()));
    say(&format!("files    {}", folder.path().display()));
    say(&format!("tree     orchestrator tree --socket {}", instance.socket().display()));
    say("Injects a panic every 6 s and takes the input directory away every 15 s. Ctrl-C ends it.");

    let began = Instant::now();
    let stop = AtomicBool::new(false);
    let (jobs, rows, faults) = (Jobs::new(folder.path()), Rows::new(folder.path()), Faults::default());
    thread::scope(|scope| {
        for _ in 0..jobs::WORKERS {
            scope.spawn(|| jobs.work());
        }
        let fetcher = scope.spawn(|| jobs.list(&stop));
        scope.spawn(|| rows.import(&instance, &stop));
        scope.spawn(|| faults.inject(&instance, folder.path(), &stop));
        scope.spawn(|| {
            let mut next = began + PROGRESS;
            while !stop.load(Relaxed) {
                thread::sleep(Duration::from_millis(100));
                if Instant::now() >= next {
                    next += PROGRESS;
                    say(&format!("{}, {}, {}", jobs.progress(), rows.progress(), faults.progress()));
                }
            }
        });
        let waited = wait(arguments.limit);
        stop.store(true, Relaxed);
        // The last file counts, too.
        let _ = fetcher.join();
        jobs.drain(Instant::now() + DRAIN_MAX);
        waited
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let rows_stored = instance.stored_rows()?;
    let report = Report {
        seconds: (seconds * 10.0).round() / 10.0,
        jobs_listed: jobs.listed(),
        jobs_done: jobs.done(),
        jobs_repeated: jobs.repeated(),
        rows_sent: rows.sent(),
        rows_stored,
        panics: faults.panics(),
        outages: faults.outages(),
        process_restarts: instance.stop()?,
        lost: (jobs.listed() - jobs.done()) as u64 + rows.sent().saturating_sub(rows_stored),
    };
    let text = if arguments.json { serde_json::to_string(&report)? } else { report.text() };
    writeln!(std::io::stdout().lock(), "{text}")?;
    Ok(if report.lost == 0 { ExitCode::Ok } else { ExitCode::Failure })
}

/// Waits until the time is over, or for SIGINT or SIGTERM.
fn wait(limit: Option<Duration>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let over = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => {}
            result = tokio::signal::ctrl_c() => result?,
            _ = terminated.recv() => {}
        }
        Ok(())
    })
}

impl Report {
    fn text(&self) -> String {
        format!(
            "{} s: {} of {} jobs done ({} handed out again), {} of {} rows stored, {} panics, {} outages, {} lost",
            self.seconds,
            self.jobs_done,
            self.jobs_listed,
            self.jobs_repeated,
            self.rows_stored,
            self.rows_sent,
            self.panics,
            self.outages,
            self.lost
        )
    }
}
