//! Causes that follow from children that wait for each other.

use std::collections::BTreeMap;

use orchestrator_subsystem::wire::Cause;
use orchestrator_supervise::{NodeSnapshot, WaitGraph, WaitSnapshot, without_root};

/// Most waiting children that are named as evidence.
const NAMED_MAX: usize = 3;

/// Deadlocks and waiting children of a tree.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// The deadlock of which a child is a part.
    deadlocks: BTreeMap<String, Cause>,
    /// Waits for a child, the oldest first.
    waits: BTreeMap<String, Vec<String>>,
    /// The longest wait for room in a child's mailbox, milliseconds.
    room_ms: BTreeMap<String, u64>,
    /// The oldest wait of a branch of the root for each other one.
    across: BTreeMap<(String, String), Across>,
}

/// A wait of a child for one of another branch.
#[derive(Debug, Clone)]
pub(crate) struct Across {
    /// Path of the child that waits.
    pub(crate) path: String,
    /// Path of the child that it waits for.
    pub(crate) on: String,
    pub(crate) text: String,
    pub(crate) since_ms: u64,
}

impl Waiting {
    pub(crate) fn of(root: &NodeSnapshot, now_ms: u64) -> Self {
        let graph = WaitGraph::new(root);
        let mut waiting = Self::default();
        root.walk(&mut |node| {
            if let Some(cycle) = graph.deadlock(&node.path) {
                waiting.deadlocks.insert(node.path.clone(), deadlock(&node.path, &cycle, now_ms));
            }
            let waits: Vec<_> = graph.waiting_for(&node.path);
            if !waits.is_empty() {
                let named = waits.iter().take(NAMED_MAX).map(|(from, wait)| describe(from, wait));
                waiting.waits.insert(node.path.clone(), named.collect());
            }
            if let Some((_, wait)) = waits.iter().find(|(_, wait)| wait.kind == "room") {
                waiting.room_ms.insert(node.path.clone(), wait.for_ms);
            }
            let branch = branch_of(&node.path);
            for (from, wait) in waits.iter().filter(|(from, _)| branch_of(from) != branch) {
                let across = Across {
                    path: (*from).to_owned(),
                    on: node.path.clone(),
                    text: describe(from, wait),
                    since_ms: now_ms.saturating_sub(wait.for_ms),
                };
                let key = (branch_of(from).to_owned(), branch.to_owned());
                waiting
                    .across
                    .entry(key)
                    .and_modify(|oldest| {
                        if across.since_ms < oldest.since_ms {
                            *oldest = across.clone();
                        }
                    })
                    .or_insert(across);
            }
        });
        waiting
    }

    /// Branches of the root for which the one of `path` waits, each with its oldest wait.
    pub(crate) fn across(&self, path: &str) -> impl Iterator<Item = (&str, &Across)> {
        let branch = branch_of(path).to_owned();
        self.across
            .iter()
            .filter(move |((from, _), _)| *from == branch)
            .map(|((_, on), wait)| (on.as_str(), wait))
    }

    /// Waits for the child at `path`, the oldest first.
    pub(crate) fn for_child(&self, path: &str) -> &[String] {
        self.waits.get(path).map(Vec::as_slice).unwrap_or_default()
    }

    /// Longest wait for room in a mailbox of the child at `path`, milliseconds; 0 if none waits.
    pub(crate) fn for_room_ms(&self, path: &str) -> u64 {
        self.room_ms.get(path).copied().unwrap_or_default()
    }

    /// The child and others wait for each other, so none of them continues.
    pub(crate) fn deadlock_of(&self, path: &str) -> Option<Cause> {
        self.deadlocks.get(path).cloned()
    }
}

/// Name of the root's child at or above a path.
pub(crate) fn branch_of(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or_default()
}

/// The cause of one child in a cycle of waits that begins with its own.
fn deadlock(path: &str, cycle: &[(&str, &WaitSnapshot)], now_ms: u64) -> Cause {
    let text = match cycle {
        [_] => "waits for itself".to_owned(),
        [(_, own), _] => format!("waits for {}, which waits for it", without_root(&own.on)),
        all => format!("{} children wait for each other in a cycle", all.len()),
    };
    let age_ms = cycle.iter().map(|(_, wait)| wait.for_ms).min().unwrap_or(0);
    Cause {
        kind: "deadlocked".to_owned(),
        path: path.to_owned(),
        text,
        since_ms: Some(now_ms.saturating_sub(age_ms)),
        evidence: cycle.iter().map(|(from, wait)| describe(from, wait)).collect(),
        help: format!("orchestrator restart {}", without_root(path)),
        affects: Vec::new(),
        routine: false,
    }
}

/// Describes a wait: `queue/a has waited 3.2 s for an answer of queue/b`.
fn describe(from: &str, wait: &WaitSnapshot) -> String {
    let (from, on) = (without_root(from), without_root(&wait.on));
    let seconds = std::time::Duration::from_millis(wait.for_ms).as_secs_f64();
    let times = if wait.count > 1 { format!(" ({} times)", wait.count) } else { String::new() };
    match wait.kind.as_str() {
        "room" => format!("{from} has waited {seconds:.1} s for room in {on}{times}"),
        _ => format!("{from} has waited {seconds:.1} s for an answer of {on}{times}"),
    }
}
