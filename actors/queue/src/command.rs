//! Subcommands of `orchestrator queue`, which call the queue's console.

mod report;
mod table;

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context, OutputFormat, columns::align};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use self::table::{ATTEMPT_COLUMNS, Object, cell, table};

/// Tree path of the console.
const CONSOLE: &str = "queue/queue_console";

/// Inspect and control the queue
#[derive(Debug, Clone, Subcommand)]
pub enum QueueCommand {
    /// List the runs of all fetchers (a run is a fetcher file), with the number of rows of each
    ///
    /// Example: orchestrator queue ls
    Ls {
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Show the next jobs without handing them out
    ///
    /// Example: orchestrator queue peek -n 3
    Peek {
        /// Number of jobs, at most 1000
        #[arg(short, default_value_t = 10, value_name = "N")]
        n: u32,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Show the numbers of rows and of jobs that are ready, held (their attribute path is in flight) or in flight
    ///
    /// Example: orchestrator queue stats --json
    Stats {
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Show the waiting job, the running job and the past attempts of an attribute path
    ///
    /// Example: orchestrator queue show python3Packages.requests
    Show {
        /// Attribute path of the job
        #[arg(value_name = "ATTR")]
        attr_path: String,
        /// Number of attempts, at most 1000
        #[arg(short, default_value_t = 20, value_name = "N")]
        n: u32,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List the jobs in flight, longest first
    ///
    /// Example: orchestrator queue in-flight -n 10
    InFlight {
        /// Number of jobs, at most 1000
        #[arg(short, default_value_t = 100, value_name = "N")]
        n: u32,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List failed attempts, newest first
    ///
    /// Example: orchestrator queue failed --code 124 --since 24h
    Failed {
        /// List only attempts with this exit code
        #[arg(long, allow_negative_numbers = true)]
        code: Option<i64>,
        /// List only attempts handed out since then: a duration like 24h, a time like
        /// 2026-11-23T08:00:00Z, or unix seconds
        #[arg(long, value_name = "TIME", value_parser = report::time)]
        since: Option<i64>,
        /// Number of attempts, at most 1000
        #[arg(short, default_value_t = 100, value_name = "N")]
        n: u32,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// List jobs of the fetcher files that were not handed out for some days
    ///
    /// Example: orchestrator queue stale --days 30
    Stale {
        /// Minimum number of days since the last hand-out
        #[arg(long, default_value_t = 30)]
        days: u32,
        /// Number of jobs, at most 1000
        #[arg(short, default_value_t = 100, value_name = "N")]
        n: u32,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Put a waiting job before all others, for its next hand-out
    ///
    /// Example: orchestrator queue bump python3Packages.requests
    Bump {
        /// Attribute path of the job
        #[arg(value_name = "ATTR")]
        attr_path: String,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Make a job available again, even if a worker has it; the worker is not stopped
    ///
    /// Example: orchestrator queue requeue python3Packages.requests
    Requeue {
        /// Attribute path of the job
        #[arg(value_name = "ATTR")]
        attr_path: String,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Stop handing out jobs until `resume`; workers get NOJOBS, and their DONE lines still count
    ///
    /// Example: orchestrator queue pause --reason "new disk"
    Pause {
        /// Reason, recorded in the audit log and shown by `orchestrator why`
        #[arg(long, default_value = "", value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Resume handing out jobs
    ///
    /// Example: orchestrator queue resume
    Resume {
        #[command(flatten)]
        format: OutputFormat,
    },
}

/// Columns shown first; other fields follow in alphabetical order.
const RUN_COLUMNS: [&str; 5] = ["fetcher", "run_started", "complete", "rows", "waiting"];
const JOB_COLUMNS: [&str; 3] = ["attr_path", "payload", "fetcher"];
const STALE_COLUMNS: [&str; 4] = ["attr_path", "last_started", "fetcher", "run_started"];

#[derive(Debug, Deserialize)]
struct Requeued {
    requeued: u64,
}

/// Sends the command to the console and prints the answer.
pub(crate) async fn run(command: &QueueCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
    let (verb, args, format) = match command {
        QueueCommand::Ls { format } => ("ls", json!({}), format),
        QueueCommand::Peek { n, format } => ("peek", json!({ "n": n }), format),
        QueueCommand::Stats { format } => ("stats", json!({}), format),
        QueueCommand::Show { attr_path, n, format } => {
            ("show", json!({ "attr_path": attr_path, "n": n }), format)
        }
        QueueCommand::InFlight { n, format } => ("in-flight", json!({ "n": n }), format),
        QueueCommand::Failed { code, since, n, format } => {
            ("failed", json!({ "code": code, "since": since, "n": n }), format)
        }
        QueueCommand::Stale { days, n, format } => ("stale", json!({ "days": days, "n": n }), format),
        QueueCommand::Bump { attr_path, format } => ("bump", json!({ "attr_path": attr_path }), format),
        QueueCommand::Requeue { attr_path, format } => ("requeue", json!({ "attr_path": attr_path }), format),
        QueueCommand::Pause { reason, format } => ("pause", json!({ "reason": reason }), format),
        QueueCommand::Resume { format } => ("resume", json!({}), format),
    };
    let answer = context.ask(CONSOLE, verb, &args, *format).await?;
    if format.json {
        return context.print(&format.print(&answer));
    }
    let text = match command {
        QueueCommand::Ls { .. } => {
            table(&parse::<Vec<Object>>(context, answer)?, &RUN_COLUMNS, "no fetcher file in the queue\n")
        }
        QueueCommand::Peek { .. } => {
            table(&parse::<Vec<Object>>(context, answer)?, &JOB_COLUMNS, "no job is waiting\n")
        }
        QueueCommand::Stats { .. } => stats(&parse(context, answer)?),
        QueueCommand::Show { .. } => report::show(&Value::Object(parse(context, answer)?)),
        QueueCommand::InFlight { .. } => {
            table(&parse::<Vec<Object>>(context, answer)?, &ATTEMPT_COLUMNS, "no job is in flight\n")
        }
        QueueCommand::Failed { .. } => {
            table(&parse::<Vec<Object>>(context, answer)?, &ATTEMPT_COLUMNS, "no failed attempt\n")
        }
        QueueCommand::Stale { .. } => {
            table(&parse::<Vec<Object>>(context, answer)?, &STALE_COLUMNS, "every listed job was tried\n")
        }
        QueueCommand::Bump { attr_path, .. } => format!("{attr_path} is next\n"),
        QueueCommand::Requeue { attr_path, .. } => requeued(attr_path, &parse(context, answer)?),
        QueueCommand::Pause { .. } => "paused: no job is handed out\n".to_owned(),
        QueueCommand::Resume { .. } => "resumed: jobs are handed out\n".to_owned(),
    };
    context.print(&text)
}

fn parse<T: DeserializeOwned>(context: &Context<'_>, answer: Value) -> Result<T, CommandError> {
    serde_json::from_value(answer)
        .map_err(|error| context.instance.unexpected_response(format!("unexpected answer: {error}")))
}

fn stats(stats: &Object) -> String {
    let rows: Vec<_> = stats.iter().map(|(name, value)| vec![name.clone(), cell(value)]).collect();
    align(&rows, &[1])
}

fn requeued(attr_path: &str, answer: &Requeued) -> String {
    match answer.requeued {
        0 => format!("nothing to requeue: no worker has {attr_path}\n"),
        n => format!("{n} requeued\n"),
    }
}
