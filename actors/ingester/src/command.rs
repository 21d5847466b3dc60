//! `orchestrator ingester ..`: commands answered by the ingesters' consoles, and commands that need
//! no running instance.

mod tools;

use clap::Subcommand;
use orchestrator_subsystem::{CommandError, Context, OutputFormat, columns::align};
use serde_json::{Value, json};

/// Path of the subsystem in the tree.
const BRANCH: &str = "ingester";

pub(crate) use self::tools::{PlayArguments, ProbeArguments};

/// Inspect the ingesters, probe and play sources
#[derive(Debug, Clone, Subcommand)]
pub enum IngesterCommand {
    /// Show the mapping, the streams and the workers of each ingester
    ///
    /// Example: orchestrator ingester status
    Status {
        /// Show only the ingester with this name
        name: Option<String>,
        #[command(flatten)]
        form: OutputFormat,
    },
    /// Measure the messages of a source, without Redis
    ///
    /// Example: orchestrator ingester probe --source albaem tcp://detector:9999
    Probe(ProbeArguments),
    /// Play a dump or a raw capture as a source
    ///
    /// Example: orchestrator ingester play scan.cbors --to tcp://0.0.0.0:9999 --pace 1000/s
    Play(PlayArguments),
}

/// Runs a command and prints its answer.
pub(crate) async fn run(command: &IngesterCommand, context: &mut Context<'_>) -> Result<(), CommandError> {
    match command {
        IngesterCommand::Status { name, form } => status(name.as_ref(), *form, context).await,
        IngesterCommand::Probe(arguments) => arguments.run(context).await,
        IngesterCommand::Play(arguments) => arguments.run(context).await,
    }
}

async fn status(
    name: Option<&String>,
    form: OutputFormat,
    context: &mut Context<'_>,
) -> Result<(), CommandError> {
    let mut statuses = Vec::new();
    for node in &context.tree(BRANCH).await?.root.children {
        if name.is_none_or(|name| node.label.as_ref() == Some(name)) {
            let console = format!("{BRANCH}/{}/ingester", node.id);
            statuses.push(context.ask(&console, "status", &json!({}), form).await?);
        }
    }
    if form.json {
        return context.print(&form.print(&statuses));
    }
    if statuses.is_empty() {
        return context.print("no such ingester\n");
    }
    context.print(&statuses.iter().map(page).collect::<Vec<_>>().join("\n"))
}

/// Text of one ingester: a summary line, a table of streams, a table of workers.
fn page(status: &Value) -> String {
    let state = &status["state"];
    let head = [
        ("ingester", &state["name"]),
        ("url", &state["url"]),
        ("mapping", &state["mapping_uuid"]),
        ("events", &state["processed_events"]),
        ("events/s", &state["event_rate"]),
    ];
    let head: Vec<_> = head.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
    let streams = state["orchestrator"]["streams"].as_object().into_iter().flatten();
    let streams = table(
        ["STREAM", "ITEMS", "WAITING", "OLDEST MS", "GAPS", "MISSING", "INVALID", "LOST"],
        streams.map(|(name, metrics)| {
            let metric = |key: &str| plain(&metrics[key]);
            let keys = [
                "items",
                "waiting_items",
                "oldest_item",
                "gaps",
                "missing_frames",
                "invalid_messages",
                "lost_items",
            ];
            std::iter::once(name.clone()).chain(keys.map(metric)).collect()
        }),
    );
    let workers = table(
        ["WORKER", "CONNECTED", "EVENTS", "QUEUED", "BYTES", "ON DISK", "OLDEST MS"],
        status["workers"].as_array().into_iter().flatten().map(|worker| {
            let keys = [
                "worker",
                "connected",
                "events",
                "queued_messages",
                "queued_bytes",
                "spilled_bytes",
                "oldest_ms",
            ];
            keys.map(|key| plain(&worker[key])).to_vec()
        }),
    );
    format!("{}\n{streams}{workers}", head.join(", "))
}

fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    cells.extend(rows);
    align(&cells, &(1..N).collect::<Vec<_>>())
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:.1}", number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_streams_and_workers() {
        let status = json!({
            "state": {
                "name": "eiger-ingester", "url": "tcp://node7:10010", "mapping_uuid": null,
                "processed_events": 7, "event_rate": 3.25,
                "orchestrator": {"streams": {"eiger": {"items": 9, "waiting_items": 2, "oldest_item": 31, "gaps": 1,
                    "missing_frames": 4, "invalid_messages": 0, "lost_items": 0}}},
            },
            "workers": [{"worker": "w1", "connected": true, "events": 5, "queued_messages": 0, "queued_bytes": 0,
                "spilled_bytes": 0, "oldest_ms": null}],
        });
        let expected = "\
ingester eiger-ingester, url tcp://node7:10010, mapping -, events 7, events/s 3.2
STREAM  ITEMS  WAITING  OLDEST MS  GAPS  MISSING  INVALID  LOST
eiger       9        2         31     1        4        0     0
WORKER  CONNECTED  EVENTS  QUEUED  BYTES  ON DISK  OLDEST MS
w1           true       5       0      0        0          -
";
        assert_eq!(page(&status), expected);
    }
}
