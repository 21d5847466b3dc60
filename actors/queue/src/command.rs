//! Subcommands of `orchestrator queue`, which call the queue's console.

use std::collections::BTreeSet;

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context, OutputFormat, columns::align};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Tree path of the console.
const CONSOLE: &str = "queue/queue_console";

/// Inspect and control the queue
#[derive(Debug, Clone, Subcommand)]
pub enum QueueCommand {
    /// List the runs of all fetchers, with their numbers of rows
    ///
    /// Example: orchestrator queue ls
    Ls {
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Show the next jobs without handing them out
    ///
    /// Example: orchestrator queue peek -n 3
    Peek {
        /// Number of jobs, at most 1000
        #[arg(short, default_value_t = 10, value_name = "N")]
        n: u32,
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Show the numbers of rows, groups and paths, and whether the queue is paused
    ///
    /// Example: orchestrator queue stats --json
    Stats {
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Make a job available again and end its hold; its worker is not stopped
    ///
    /// Example: orchestrator queue requeue python3Packages.requests
    Requeue {
        /// Attribute path of the job
        #[arg(value_name = "ATTR")]
        attr_path: String,
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Stop handing out jobs until `resume`; workers get NOJOBS, and their DONE lines still count
    ///
    /// Example: orchestrator queue pause --reason "new disk"
    Pause {
        /// Reason, recorded in the audit log and shown by `orchestrator why`
        #[arg(long, default_value = "", value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Resume handing out jobs
    ///
    /// Example: orchestrator queue resume
    Resume {
        #[command(flatten)]
        form: OutputFormat,
    },
}

/// Columns shown first; other fields follow in alphabetical order.
const RUN_COLUMNS: [&str; 5] = ["fetcher", "run_started", "complete", "rows", "waiting"];
const JOB_COLUMNS: [&str; 3] = ["attr_path", "payload", "fetcher"];
/// Maximum width of a table cell, in characters; `--json` shows the whole text.
const CELL_MAX: usize = 60;

type Object = Map<String, Value>;

#[derive(Debug, Deserialize)]
struct Requeued {
    requeued: u64,
}

/// Sends the command to the console and prints the answer.
pub(crate) async fn run(command: &QueueCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
    let (verb, args, form) = match command {
        QueueCommand::Ls { form } => ("ls", json!({}), form),
        QueueCommand::Peek { n, form } => ("peek", json!({ "n": n }), form),
        QueueCommand::Stats { form } => ("stats", json!({}), form),
        QueueCommand::Requeue { attr_path, form } => ("requeue", json!({ "attr_path": attr_path }), form),
        QueueCommand::Pause { reason, form } => ("pause", json!({ "reason": reason }), form),
        QueueCommand::Resume { form } => ("resume", json!({}), form),
    };
    let answer = context.ask(CONSOLE, verb, &args, *form).await?;
    if form.json {
        return context.print(&form.print(&answer));
    }
    let text = match command {
        QueueCommand::Ls { .. } => {
            table(&parse::<Vec<Object>>(context, answer)?, &RUN_COLUMNS, "no fetcher file in the queue\n")
        }
        QueueCommand::Peek { .. } => {
            table(&parse::<Vec<Object>>(context, answer)?, &JOB_COLUMNS, "no job is waiting\n")
        }
        QueueCommand::Stats { .. } => stats(&parse(context, answer)?),
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

fn table(rows: &[Object], first: &[&str], empty: &str) -> String {
    if rows.is_empty() {
        return empty.to_owned();
    }
    let known: BTreeSet<&str> = rows.iter().flat_map(Object::keys).map(String::as_str).collect();
    let others = known.iter().copied().filter(|name| !first.contains(name));
    let columns: Vec<&str> =
        first.iter().copied().filter(|name| known.contains(name)).chain(others).collect();
    let is_number = |name: &&str| rows.iter().all(|row| row.get(*name).is_none_or(Value::is_number));
    let right: Vec<usize> = (0..columns.len()).filter(|i| is_number(&columns[*i])).collect();
    let head = columns.iter().map(|name| name.replace('_', " ").to_uppercase()).collect();
    let cells =
        |row: &Object| columns.iter().map(|name| row.get(*name).map_or_else(String::new, cell)).collect();
    let lines: Vec<_> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    align(&lines, &right)
}

/// Formats a JSON value as a table cell.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    if text.chars().count() <= CELL_MAX {
        return text;
    }
    text.chars().take(CELL_MAX - 1).chain(['…']).collect()
}
