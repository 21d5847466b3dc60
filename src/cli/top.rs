//! `orchestrator top`: a refreshed table of children. Rates are computed from the counters of two snapshots of the tree.

use std::{
    io::{IsTerminal, Write},
    time::Duration,
};

use clap::{Args, ValueEnum};
use orchestrator_admin::ascii::format_duration;
use orchestrator_subsystem::{
    CommandError, OutputFormat,
    columns::align,
    output,
    wire::{MetricKind, MetricSnapshot, NodeSnapshot, TreeSnapshot, tree_url},
};
use serde::Serialize;

use crate::cli::client::Client;

/// Right-aligned columns: restarts, depth, rate, p99.
const RIGHT: [usize; 4] = [2, 3, 4, 5];
/// Control sequence that clears the terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Arguments of `orchestrator top`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopArguments {
    /// Show only this child and its descendants; a leading `orchestrator/` is optional
    path: Option<String>,
    /// Sort the rows by this column
    #[arg(long, value_enum, default_value_t = Sort::Path)]
    sort: Sort,
    /// Show only children whose path, state or link contains this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Seconds between two refreshes, 0.1 to 3600
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS", value_parser = interval)]
    interval: f64,
    /// Print one table after one interval, and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    pub(super) format: OutputFormat,
}

/// Order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Order of the tree
    Path,
    /// Number of restarts
    Restarts,
    /// Messages waiting in mailboxes
    Depth,
    /// Messages handled per second
    Rate,
    /// Handling time, 99th percentile
    P99,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    path: String,
    state: String,
    restarts: u64,
    /// Messages waiting in all mailboxes of the child.
    depth: usize,
    /// Messages handled per second since the last snapshot.
    rate: f64,
    /// Handling time of the slowest message type, 99th percentile in microseconds.
    p99_us: u64,
    /// State of the connection. In the row of a peer: its metrics, with counters as rates per second.
    link: String,
    /// Peer of this row, if the child has metrics of several peers, e.g. `worker w1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("write 0.1 to 3600 seconds".to_owned()) }
}

/// Prints the table until the output is closed, or once with `--once`.
pub(crate) async fn run(
    arguments: &TopArguments,
    client: &Client,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let clear = std::io::stdout().is_terminal() && !arguments.format.json && !arguments.once;
    let mut before = fetch_tree(arguments, client).await?;
    loop {
        tokio::time::sleep(Duration::from_secs_f64(arguments.interval)).await;
        match fetch_tree(arguments, client).await {
            Ok(now) => {
                let text = arguments.show(&before, &now);
                write!(out, "{}{}", if clear { CLEAR } else { "" }, output::escape_lines(&text))?;
                before = now;
            }
            Err(error) if arguments.once => return Err(error),
            // The process may be restarting; the table returns with it.
            Err(error @ (CommandError::Unreachable { .. } | CommandError::ResponseTimeout { .. })) => {
                writeln!(out, "{}", output::escape_lines(&error.to_string()))?;
            }
            Err(error) => return Err(error),
        }
        out.flush()?;
        if arguments.once {
            return Ok(());
        }
    }
}

async fn fetch_tree(arguments: &TopArguments, client: &Client) -> Result<TreeSnapshot, CommandError> {
    let answer = client.get(&tree_url(arguments.path.as_deref())).await?;
    serde_json::from_value(answer)
        .map_err(|error| client.unexpected_response(format!("invalid tree: {error}")))
}

impl TopArguments {
    fn show(&self, before: &TreeSnapshot, now: &TreeSnapshot) -> String {
        let mut rows = rows(before, now);
        if let Some(text) = &self.filter {
            rows.retain(|row| [&row.path, &row.state, &row.link].iter().any(|cell| cell.contains(text)));
        }
        match self.sort {
            Sort::Path => {}
            Sort::Restarts => rows.sort_by_key(|row| std::cmp::Reverse(row.restarts)),
            Sort::Depth => rows.sort_by_key(|row| std::cmp::Reverse(row.depth)),
            Sort::Rate => rows.sort_by(|a, b| b.rate.total_cmp(&a.rate)),
            Sort::P99 => rows.sort_by_key(|row| std::cmp::Reverse(row.p99_us)),
        }
        if self.format.json {
            return self.format.print(&rows);
        }
        table(now.uptime_ms, &rows)
    }
}

fn table(uptime_ms: u64, rows: &[Row]) -> String {
    let head = ["CHILD", "STATE", "RESTARTS", "DEPTH", "RATE/S", "P99", "LINK"];
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(|row| match &row.peer {
        Some(peer) => {
            let mut cells = vec![format!("  {peer}")];
            cells.resize(6, String::new());
            cells.push(row.link.clone());
            cells
        }
        None => vec![
            row.path.clone(),
            row.state.clone(),
            row.restarts.to_string(),
            row.depth.to_string(),
            format!("{:.1}", row.rate),
            if row.p99_us == 0 { String::new() } else { micros(row.p99_us) },
            row.link.clone(),
        ],
    }));
    format!("up {}\n{}", format_duration(uptime_ms), align(&cells, &RIGHT))
}

fn micros(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}us"),
        1_000..1_000_000 => format!("{}ms", us / 1_000),
        _ => format!("{}s", us / 1_000_000),
    }
}

/// Returns a row for every child of `now`, with rates since `before`.
fn rows(before: &TreeSnapshot, now: &TreeSnapshot) -> Vec<Row> {
    let seconds = now.captured_at_ms.saturating_sub(before.captured_at_ms).max(1) as f64 / 1e3;
    // The counters of another process cannot be compared.
    let same_process = now.uptime_ms >= before.uptime_ms;
    let mut rows = Vec::new();
    now.root.walk(&mut |node| {
        let then = before.root.find(&node.path).filter(|_| same_process);
        let former = then.map_or(0, handled);
        rows.push(Row {
            path: node.path.clone(),
            state: if node.stuck { "stuck".to_owned() } else { node.state.clone() },
            restarts: node.restarts,
            depth: node.mailboxes.iter().fold(0, |sum, mailbox| sum.saturating_add(mailbox.depth)),
            rate: handled(node).saturating_sub(former) as f64 / seconds,
            p99_us: slowest(node),
            link: node.link.as_ref().map_or_else(String::new, |link| format!("{} {}", link.kind, link.state)),
            peer: None,
        });
        rows.extend(peers(then, node, seconds));
    });
    rows
}

/// Returns a row for each peer that `node` has metrics of.
fn peers(then: Option<&NodeSnapshot>, node: &NodeSnapshot, seconds: f64) -> Vec<Row> {
    let mut peers: Vec<(String, Vec<String>)> = Vec::new();
    for metric in &node.metrics {
        let Some(label) = &metric.label else { continue };
        let same = |one: &&MetricSnapshot| one.name == metric.name && one.label == metric.label;
        let former = then.and_then(|then| then.metrics.iter().find(same)).map_or(0, |one| one.value);
        let text = match metric.kind {
            MetricKind::Gauge => format!("{} {}", metric.name, metric.value),
            MetricKind::Counter => {
                let rate = metric.value.saturating_sub(former) as f64 / seconds;
                format!("{} {rate:.1}/s", metric.name)
            }
        };
        let name = format!("{} {}", label.name, label.value);
        match peers.iter_mut().find(|(peer, _)| *peer == name) {
            Some((_, metrics)) => metrics.push(text),
            None => peers.push((name, vec![text])),
        }
    }
    let row = |(peer, metrics): (String, Vec<String>)| Row {
        path: node.path.clone(),
        state: node.state.clone(),
        restarts: 0,
        depth: 0,
        rate: 0.0,
        p99_us: 0,
        link: metrics.join(", "),
        peer: Some(peer),
    };
    peers.into_iter().map(row).collect()
}

fn handled(node: &NodeSnapshot) -> u64 {
    node.mailboxes.iter().fold(0, |sum, mailbox| sum.saturating_add(mailbox.handled))
}

fn slowest(node: &NodeSnapshot) -> u64 {
    let messages = node.mailboxes.iter().flat_map(|mailbox| &mailbox.messages);
    messages.map(|message| message.handling_us[2]).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(at_ms: u64, uptime_ms: u64, handled: u64) -> TreeSnapshot {
        let node = |path: &str, state: &str, restarts: u64, mailboxes: serde_json::Value| {
            json!({
                "path": path, "id": path.rsplit('/').next(), "label": null, "kind": "actor", "state": state,
                "stuck": false, "restart": "permanent", "strategy": null, "intensity": null, "period_ms": null,
                "pausable": false, "console": false, "arbiter": null, "incarnation": 1, "started_ms": 0,
                "restarts": restarts, "budget_left": 5, "last_exit": null, "mailboxes": mailboxes, "in_progress": null,
                "stale": 0, "link": null, "metrics": [], "children": [],
            })
        };
        let mailbox = json!([{
            "name": "mailbox", "depth": 7, "capacity": 9, "high_water": 9, "refused": 0, "handled": handled, "purged": 0,
            "messages": [{"name": "A", "count": 1, "wait_us": [1, 1, 1], "handling_us": [1, 2, 2048]}],
        }]);
        let mut root = node("o", "running", 0, json!([]));
        root["children"] =
            json!([node("o/a", "running", 0, mailbox), node("o/b", "backing_off", 3, json!([]))]);
        let tree = json!({"seq": 1, "captured_at_ms": at_ms, "uptime_ms": uptime_ms, "root": root});
        serde_json::from_value(tree).unwrap()
    }

    #[test]
    fn rates_are_computed_between_two_snapshots() {
        let found = rows(&tree(1_000, 500, 10), &tree(3_000, 2_500, 110));
        assert_eq!(
            (found[1].path.as_str(), found[1].rate, found[1].depth, found[1].p99_us),
            ("o/a", 50.0, 7, 2048)
        );
        let restarted = rows(&tree(1_000, 5_000, 1_000), &tree(2_000, 100, 30));
        assert_eq!(restarted[1].rate, 30.0, "the counters of a new process began at zero");
    }

    #[test]
    fn rows_are_filtered_and_sorted() {
        let mut top = TopArguments {
            path: None,
            sort: Sort::Restarts,
            filter: None,
            interval: 1.0,
            once: true,
            format: OutputFormat::default(),
        };
        let (before, now) = (tree(0, 0, 0), tree(1_000, 1_000, 40));
        let text = top.show(&before, &now);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "up 1s");
        assert!(lines[2].starts_with("o/b") && lines[2].contains("backing_off"), "{text}");
        top.sort = Sort::Rate;
        top.filter = Some("running".to_owned());
        let text = top.show(&before, &now);
        assert!(text.lines().nth(2).unwrap().starts_with("o/a"), "{text}");
        assert!(!text.contains("o/b") && text.contains("40.0") && text.contains("2ms"), "{text}");
    }

    #[test]
    fn invalid_intervals_are_refused() {
        assert!(interval("0").is_err() && interval("x").is_err() && interval("NaN").is_err());
        assert_eq!(interval("0.5"), Ok(0.5));
    }
}
