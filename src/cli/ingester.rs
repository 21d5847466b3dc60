//! `orchestrator ingester ..`: what the ingesters tell of themselves. All that the CLI knows of them is in this file.

use clap::Subcommand;
use orchestrator_admin::{
    columns::align,
    wire::{TreeSnapshot, console_url, tree_url},
};
use serde_json::{Value, json};

use crate::cli::{client::Client, client_error::ClientError, output::Form};

/// The branch that they are in.
const BRANCH: &str = "ingester";

/// Look into the ingesters.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum IngesterCommand {
    /// Show mapping, streams and workers of each ingester: who waits for whom
    ///
    /// Example: orchestrator ingester status
    Status {
        /// Only this one
        name: Option<String>,
        #[command(flatten)]
        form: Form,
    },
}

/// Asks the consoles and gives what is to be printed.
pub(crate) async fn run(command: &IngesterCommand, client: &Client) -> Result<String, ClientError> {
    let IngesterCommand::Status { name, form } = command;
    let answer = client.get(&tree_url(Some(BRANCH))).await?;
    let tree: TreeSnapshot = serde_json::from_value(answer)
        .map_err(|error| client.foreign(format!("this is no tree: {error}")))?;
    let mut told = Vec::new();
    for node in &tree.root.children {
        if name.as_ref().is_none_or(|name| node.label.as_ref() == Some(name)) {
            let console = format!("{BRANCH}/{}/ingester", node.id);
            told.push(client.post(&console_url(&console, "status"), &json!({})).await?);
        }
    }
    if form.json {
        return Ok(form.print(&told));
    }
    if told.is_empty() {
        return Ok("no such ingester\n".to_owned());
    }
    Ok(told.iter().map(page).collect::<Vec<_>>().join("\n"))
}

/// One ingester: a line on itself, a table of its streams, a table of its workers.
fn page(status: &Value) -> String {
    let presence = &status["presence"];
    let head = [
        ("ingester", &presence["name"]),
        ("at", &presence["url"]),
        ("mapping", &presence["mapping_uuid"]),
        ("events", &presence["processed_events"]),
        ("a second", &presence["event_rate"]),
    ];
    let head: Vec<_> = head.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
    let streams = presence["orchestrator"]["streams"].as_object().into_iter().flatten();
    let streams = table(
        ["STREAM", "ITEMS", "WAITING", "OLDEST MS", "GAPS", "MISSING", "INVALID", "LOST"],
        streams.map(|(name, figures)| {
            let figure = |key: &str| plain(&figures[key]);
            let keys = [
                "items",
                "waiting_items",
                "oldest_item",
                "gaps",
                "missing_frames",
                "invalid_messages",
                "lost_items",
            ];
            std::iter::once(name.clone()).chain(keys.map(figure)).collect()
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
    fn a_page_tells_who_waits_for_whom() {
        let status = json!({
            "presence": {
                "name": "eiger-ingester", "url": "tcp://node7:10010", "mapping_uuid": null,
                "processed_events": 7, "event_rate": 3.25,
                "orchestrator": {"streams": {"eiger": {"items": 9, "waiting_items": 2, "oldest_item": 31, "gaps": 1,
                    "missing_frames": 4, "invalid_messages": 0, "lost_items": 0}}},
            },
            "workers": [{"worker": "w1", "connected": true, "events": 5, "queued_messages": 0, "queued_bytes": 0,
                "spilled_bytes": 0, "oldest_ms": null}],
        });
        let expected = "\
ingester eiger-ingester, at tcp://node7:10010, mapping -, events 7, a second 3.2
STREAM  ITEMS  WAITING  OLDEST MS  GAPS  MISSING  INVALID  LOST
eiger       9        2         31     1        4        0     0
WORKER  CONNECTED  EVENTS  QUEUED  BYTES  ON DISK  OLDEST MS
w1           true       5       0      0        0          -
";
        assert_eq!(page(&status), expected);
    }
}
