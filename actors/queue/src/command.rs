//! `orchestrator queue ..`: verbs of the queue's console.

use std::collections::BTreeSet;

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context, Form, columns::align};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// The child that answers.
const CONSOLE: &str = "queue/queue_console";

/// Look into the queue and steer it.
#[derive(Debug, Clone, Subcommand)]
pub enum QueueCommand {
    /// List the fetcher files in the queue
    ///
    /// Example: orchestrator queue ls
    Ls {
        #[command(flatten)]
        form: Form,
    },
    /// Show the next jobs without handing them out
    ///
    /// Example: orchestrator queue peek -n 3
    Peek {
        /// How many
        #[arg(short, default_value_t = 10, value_name = "N")]
        n: u32,
        #[command(flatten)]
        form: Form,
    },
    /// Show the queue's metrics
    ///
    /// Example: orchestrator queue stats --json
    Stats {
        #[command(flatten)]
        form: Form,
    },
    /// Hand a job out again that a worker has, or had
    ///
    /// Example: orchestrator queue requeue python3Packages.requests
    Requeue {
        /// The job
        #[arg(value_name = "ATTR")]
        attr_path: String,
        #[command(flatten)]
        form: Form,
    },
    /// Hand out nothing until `resume`: workers hear NOJOBS, what they finish counts as always
    ///
    /// Example: orchestrator queue pause
    Pause {
        #[command(flatten)]
        form: Form,
    },
    /// Hand out jobs again
    ///
    /// Example: orchestrator queue resume
    Resume {
        #[command(flatten)]
        form: Form,
    },
}

/// Columns that come first; whatever else the queue tells follows in alphabetical order.
const RUN_COLUMNS: [&str; 5] = ["fetcher", "run_started", "complete", "rows", "waiting"];
const JOB_COLUMNS: [&str; 3] = ["attr_path", "payload", "fetcher"];
/// Longest cell of a table, in characters; `--json` shows all.
const CELL_MAX: usize = 60;

type Object = Map<String, Value>;

#[derive(Debug, Deserialize)]
struct Requeued {
    requeued: u64,
}

/// Asks the console and prints the answer.
pub(crate) async fn run(command: &QueueCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
    let (verb, args, form) = match command {
        QueueCommand::Ls { form } => ("ls", json!({}), form),
        QueueCommand::Peek { n, form } => ("peek", json!({ "n": n }), form),
        QueueCommand::Stats { form } => ("stats", json!({}), form),
        QueueCommand::Requeue { attr_path, form } => ("requeue", json!({ "attr_path": attr_path }), form),
        QueueCommand::Pause { form } => ("pause", json!({}), form),
        QueueCommand::Resume { form } => ("resume", json!({}), form),
    };
    let answer = context.ask(CONSOLE, verb, &args, *form).await?;
    if form.json {
        return context.print(&form.print(&answer));
    }
    let text = match command {
        QueueCommand::Ls { .. } => {
            table(&read::<Vec<Object>>(context, answer)?, &RUN_COLUMNS, "no fetcher file in the queue\n")
        }
        QueueCommand::Peek { .. } => {
            table(&read::<Vec<Object>>(context, answer)?, &JOB_COLUMNS, "no job waits\n")
        }
        QueueCommand::Stats { .. } => stats(&read(context, answer)?),
        QueueCommand::Requeue { attr_path, .. } => requeued(attr_path, &read(context, answer)?),
        QueueCommand::Pause { .. } => "paused: no job is handed out\n".to_owned(),
        QueueCommand::Resume { .. } => "resumed: jobs are handed out\n".to_owned(),
    };
    context.print(&text)
}

fn read<T: DeserializeOwned>(context: &Context<'_>, answer: Value) -> Result<T, CommandError> {
    serde_json::from_value(answer)
        .map_err(|error| context.instance.foreign(format!("unexpected answer: {error}")))
}

fn stats(stats: &Object) -> String {
    let rows: Vec<_> = stats.iter().map(|(name, value)| vec![name.clone(), plain(value)]).collect();
    align(&rows, &[1])
}

fn requeued(attr_path: &str, answer: &Requeued) -> String {
    match answer.requeued {
        0 => format!("nothing to requeue: {attr_path} is not with a worker\n"),
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
        |row: &Object| columns.iter().map(|name| row.get(*name).map_or_else(String::new, plain)).collect();
    let lines: Vec<_> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    align(&lines, &right)
}

/// A value as a person writes it.
fn plain(value: &Value) -> String {
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
