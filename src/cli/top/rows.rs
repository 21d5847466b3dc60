//! The values of each child and peer, with rates between two snapshots. No I/O.

use std::{cmp::Ordering, collections::HashMap};

use clap::ValueEnum;
use orchestrator_subsystem::wire::{MetricKind, MetricSnapshot, NodeSnapshot, TreeSnapshot};
use serde::Serialize;

/// Order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
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

impl Sort {
    /// Compares two rows, the largest value first. Rows in the order of the tree are all equal.
    pub(super) fn compare(self, a: &Row, b: &Row) -> Ordering {
        match self {
            Self::Path => Ordering::Equal,
            Self::Restarts => b.restarts.cmp(&a.restarts),
            Self::Depth => b.depth.cmp(&a.depth),
            Self::Rate => b.rate.total_cmp(&a.rate),
            Self::P99 => b.p99_us.cmp(&a.p99_us),
        }
    }
}

/// Values of one child or peer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) path: String,
    pub(super) state: String,
    pub(super) restarts: u64,
    /// Messages waiting in all mailboxes of the child.
    pub(super) depth: usize,
    /// Messages handled per second since the last snapshot.
    pub(super) rate: f64,
    /// Handling time of the slowest message type, 99th percentile in microseconds.
    pub(super) p99_us: u64,
    /// State of the connection. In the row of a peer: its metrics, with counters as rates per second.
    pub(super) link: String,
    /// Peer of this row, if the child has metrics of several peers, e.g. `worker w1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<String>,
}

/// A row for every child of `now`, in the order of the tree, with rates since `before`. Metrics with labels
/// become rows below their child.
pub(super) fn rows(before: &TreeSnapshot, now: &TreeSnapshot) -> Vec<Row> {
    let seconds = now.captured_at_ms.saturating_sub(before.captured_at_ms).max(1) as f64 / 1e3;
    let mut former: HashMap<&str, &NodeSnapshot> = HashMap::new();
    // The counters of another process cannot be compared.
    if now.uptime_ms >= before.uptime_ms {
        before.root.walk(&mut |node| {
            former.insert(&node.path, node);
        });
    }
    let mut rows = Vec::new();
    now.root.walk(&mut |node| {
        let then = former.get(node.path.as_str()).copied();
        rows.push(Row {
            path: node.path.clone(),
            state: node.shown().to_owned(),
            restarts: node.restarts,
            depth: node.mailboxes.iter().fold(0, |sum, mailbox| sum.saturating_add(mailbox.depth)),
            rate: handled(node).saturating_sub(then.map_or(0, handled)) as f64 / seconds,
            p99_us: slowest(node),
            link: node.link.as_ref().map_or_else(String::new, |link| format!("{} {}", link.kind, link.state)),
            peer: None,
        });
        rows.extend(peers(then, node, seconds));
    });
    rows
}

/// Name of a label that divides a metric of one child and names no peer.
const EXIT_CODE: &str = "exit_code";

/// A row for each peer that `node` has metrics of.
fn peers(then: Option<&NodeSnapshot>, node: &NodeSnapshot, seconds: f64) -> Vec<Row> {
    let mut peers: Vec<(String, Vec<String>)> = Vec::new();
    for metric in &node.metrics {
        let Some(label) = metric.label.as_ref().filter(|label| label.name != EXIT_CODE) else { continue };
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
        state: node.state.to_string(),
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

/// Formats a duration in microseconds, or nothing for 0.
pub(super) fn micros(us: u64) -> String {
    match us {
        0 => String::new(),
        1..1_000 => format!("{us}us"),
        1_000..1_000_000 => format!("{}ms", us / 1_000),
        _ => format!("{}s", us / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::top::snapshots::tree;

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
    fn peers_follow_their_child_with_rates_of_counters() {
        let at = |ms: u64, sent: i64| {
            let mut tree = tree(ms, ms, 0);
            let label = json!({ "name": "worker", "value": "w1" });
            let metrics = json!([
                { "name": "queued", "unit": "", "kind": "gauge", "value": 4, "label": label },
                { "name": "sent", "unit": "", "kind": "counter", "value": sent, "label": label },
            ]);
            tree.root.children[0].metrics = serde_json::from_value(metrics).unwrap();
            tree
        };
        let found = rows(&at(1_000, 5), &at(2_000, 25));
        assert_eq!((found.len(), found[2].peer.as_deref()), (4, Some("worker w1")));
        assert_eq!(found[2].link, "queued 4, sent 20.0/s");
    }
}
