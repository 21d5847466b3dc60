//! `orchestrator demo`: an instance in a temporary directory, under load and under faults, watched from
//! outside.
//!
//! The instance is a process of its own, started from this binary, with those of queue and provenance that
//! the build has. Everything else here is a client: fetchers write files, workers speak the protocol of the
//! worker socket, imports and injected panics use the command line and the admin endpoint. At the end every
//! job and row is accounted for.

mod faults;
mod instance;
mod jobs;
mod parts;
mod rows;
mod table;

use std::{
    io::Write,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use orchestrator_subsystem::parse_duration;
use serde::Serialize;

use self::{faults::Faults, instance::Instance, jobs::Jobs, parts::Parts, rows::Rows, table::Table};
use crate::cli::exit_code::ExitCode;

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
    Duration::try_from(parse_duration(text)?).map_err(|_| "the time must not be negative".to_owned())
}

/// Result of a demo. The figures of a subsystem that the build lacks are 0.
#[derive(Debug, Serialize)]
struct Report {
    seconds: f64,
    jobs_listed: usize,
    jobs_done: usize,
    /// Hand-outs of a job that had been handed out before; allowed after a fault.
    jobs_repeated: usize,
    rows_sent: u64,
    rows_stored: u64,
    /// Rows of the catalog, each of which becomes a job.
    catalog_rows: usize,
    catalog_rows_done: usize,
    panics: u64,
    outages: u64,
    /// Starts of the process after the first one.
    process_restarts: u64,
    /// Jobs and rows of the catalog that were never done, and rows that were sent and are not stored.
    lost: u64,
}

/// Runs a demo until its time is over or Ctrl-C.
///
/// # Errors
/// The temporary directory cannot be made, or the instance does not start.
pub(crate) fn run(arguments: &DemoArguments) -> Result<ExitCode> {
    let folder =
        tempfile::Builder::new().prefix("orchestrator-demo-").tempdir().context("cannot make a directory")?;
    let parts = Parts::BUILT;
    let table = parts.catalog.then(Table::start).transpose()?;
    let instance = Instance::start(folder.path(), parts, table.as_ref().map(Table::address))?;
    let say = |line: &str| {
        if !arguments.json {
            let _ = writeln!(std::io::stdout().lock(), "{line}");
        }
    };
    say(&format!("console  {}", instance.console()));
    say(&format!("files    {}", folder.path().display()));
    say(&format!("tree     orchestrator tree --socket {}", instance.socket().display()));
    let outages = if parts.queue { " and takes the input directory away every 15 s" } else { "" };
    if let Some(table) = &table {
        say(&format!(
            "catalog  http://{}: its rows are jobs of the queue, see `orchestrator graph`",
            table.address()
        ));
    }
    say(&format!("Injects a panic every 6 s{outages}. Ctrl-C ends it."));

    let began = Instant::now();
    let stop = AtomicBool::new(false);
    let jobs = parts.queue.then(|| Jobs::new(folder.path()));
    let rows = parts.provenance.then(|| Rows::new(folder.path()));
    let faults = Faults::default();
    thread::scope(|scope| {
        let fetcher = jobs.as_ref().map(|jobs| {
            (0..jobs::WORKERS).for_each(|_| drop(scope.spawn(|| jobs.work())));
            scope.spawn(|| jobs.list(&stop))
        });
        rows.as_ref().map(|rows| scope.spawn(|| rows.import(&instance, &stop)));
        table.as_ref().map(|table| scope.spawn(|| table.add(&stop)));
        scope.spawn(|| faults.inject(&instance, folder.path(), &stop));
        scope.spawn(|| {
            let mut next = began + PROGRESS;
            while !stop.load(Relaxed) {
                thread::sleep(Duration::from_millis(100));
                if Instant::now() >= next {
                    next += PROGRESS;
                    let parts = [
                        jobs.as_ref().map(Jobs::progress),
                        table.as_ref().map(Table::progress),
                        rows.as_ref().map(Rows::progress),
                    ];
                    let parts = parts.into_iter().flatten().chain([faults.progress()]);
                    say(&parts.collect::<Vec<_>>().join(", "));
                }
            }
        });
        let waited = wait(arguments.limit);
        stop.store(true, Relaxed);
        // The last file counts, too.
        let _ = fetcher.map(|fetcher| fetcher.join());
        let open = || table.as_ref().map_or(0, |table| table.rows() - table.done());
        jobs.iter().for_each(|jobs| jobs.drain(open));
        waited
    })?;
    let seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    let report = Report::new(seconds, jobs.as_ref(), rows.as_ref(), table.as_ref(), &faults, &instance)?;
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
    /// Counts jobs and rows, and ends the instance.
    fn new(
        seconds: f64,
        jobs: Option<&Jobs>,
        rows: Option<&Rows>,
        table: Option<&Table>,
        faults: &Faults,
        instance: &Instance,
    ) -> Result<Self> {
        let (jobs_listed, jobs_done) = jobs.map_or((0, 0), |jobs| (jobs.listed(), jobs.done()));
        let (catalog_rows, catalog_rows_done) = table.map_or((0, 0), |table| (table.rows(), table.done()));
        let rows_sent = rows.map_or(0, Rows::sent);
        let rows_stored = if rows.is_some() { instance.stored_rows()? } else { 0 };
        Ok(Self {
            seconds,
            jobs_listed,
            jobs_done,
            jobs_repeated: jobs.map_or(0, Jobs::repeated),
            rows_sent,
            rows_stored,
            catalog_rows,
            catalog_rows_done,
            panics: faults.panics(),
            outages: faults.outages(),
            process_restarts: instance.stop()?,
            lost: (jobs_listed - jobs_done + catalog_rows - catalog_rows_done) as u64
                + rows_sent.saturating_sub(rows_stored),
        })
    }

    fn text(&self) -> String {
        let Self { seconds, jobs_done, jobs_listed, jobs_repeated, rows_stored, rows_sent, .. } = self;
        let jobs = (*jobs_listed > 0)
            .then(|| format!("{jobs_done} of {jobs_listed} jobs done ({jobs_repeated} handed out again), "));
        let rows = (*rows_sent > 0).then(|| format!("{rows_stored} of {rows_sent} rows stored, "));
        let table = (self.catalog_rows > 0).then(|| {
            format!("{} of {} rows of the catalog done, ", self.catalog_rows_done, self.catalog_rows)
        });
        format!(
            "{seconds} s: {}{}{}{} panics, {} outages, {} lost",
            jobs.unwrap_or_default(),
            table.unwrap_or_default(),
            rows.unwrap_or_default(),
            self.panics,
            self.outages,
            self.lost
        )
    }
}
