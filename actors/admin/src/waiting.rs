//! Waits of children for others.

use std::{cmp::Reverse, collections::BTreeMap};

use orchestrator_observe::{NodeSnapshot, WaitSnapshot, without_root};

/// Most waiting children that are named as evidence.
const NAMED_MAX: usize = 3;

/// Waiting children of a tree.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
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
        let mut by_target: BTreeMap<&str, Vec<(&str, &WaitSnapshot)>> = BTreeMap::new();
        root.walk(&mut |node| {
            for wait in &node.waits {
                by_target.entry(&wait.on).or_default().push((node.path.as_str(), wait));
            }
        });
        let mut waiting = Self::default();
        for (on, mut waits) in by_target {
            waits.sort_by_key(|(from, wait)| (Reverse(wait.for_ms), *from));
            let named = waits.iter().take(NAMED_MAX).map(|(from, wait)| describe(from, wait));
            waiting.waits.insert(on.to_owned(), named.collect());
            if let Some((_, wait)) = waits.iter().find(|(_, wait)| wait.kind == "room") {
                waiting.room_ms.insert(on.to_owned(), wait.for_ms);
            }
            let branch = branch_of(on);
            for (from, wait) in waits.iter().filter(|(from, _)| branch_of(from) != branch) {
                let across = Across {
                    path: (*from).to_owned(),
                    on: on.to_owned(),
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
        }
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
}

/// Name of the root's child at or above a path.
pub(crate) fn branch_of(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or_default()
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
