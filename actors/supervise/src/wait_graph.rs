//! Graph of the children that wait for each other, read from a snapshot. No I/O.

use std::collections::{BTreeMap, VecDeque};

use crate::snapshot::{NodeSnapshot, WaitSnapshot};

/// Age from which waits count as deadlocked, milliseconds. Shorter ones may end by themselves.
pub const DEADLOCK_AFTER_MS: u64 = 1_000;

/// Waits of each child, by its path.
#[derive(Debug)]
pub struct WaitGraph<'a>(BTreeMap<&'a str, &'a [WaitSnapshot]>);

impl<'a> WaitGraph<'a> {
    /// Reads the waits of all children.
    pub fn new(root: &'a NodeSnapshot) -> Self {
        let mut waits = BTreeMap::new();
        root.walk(&mut |node| {
            if !node.waits.is_empty() {
                waits.insert(node.path.as_str(), node.waits.as_slice());
            }
        });
        Self(waits)
    }

    /// Waits for the child at `path`, each with the path of the child that waits, the oldest first.
    pub fn waiting_for(&self, path: &str) -> Vec<(&'a str, &'a WaitSnapshot)> {
        let all = self.0.iter().flat_map(|(from, waits)| waits.iter().map(|wait| (*from, wait)));
        let mut found: Vec<_> = all.filter(|(_, wait)| wait.on == path).collect();
        found.sort_by_key(|(_, wait)| std::cmp::Reverse(wait.for_ms));
        found
    }

    /// Shortest cycle of waits that begins and ends at the child at `path`: each wait with the path of the
    /// child that waits. Waits younger than [`DEADLOCK_AFTER_MS`], and those beside which a child handles
    /// messages, do not count.
    pub fn deadlock(&self, path: &str) -> Option<Vec<(&'a str, &'a WaitSnapshot)>> {
        let (start, _) = self.0.get_key_value(path)?;
        let mut reached: BTreeMap<&str, (&'a str, &'a WaitSnapshot)> = BTreeMap::new();
        let mut next = VecDeque::from([*start]);
        while let Some(from) = next.pop_front() {
            let waits = self.0.get(from).copied().unwrap_or_default();
            for wait in waits.iter().filter(|wait| wait.blocks && wait.for_ms >= DEADLOCK_AFTER_MS) {
                if reached.contains_key(wait.on.as_str()) {
                    continue;
                }
                reached.insert(&wait.on, (from, wait));
                if wait.on == *start {
                    return Some(Self::walk_back(start, &reached));
                }
                if let Some((on, _)) = self.0.get_key_value(wait.on.as_str()) {
                    next.push_back(on);
                }
            }
        }
        None
    }

    /// Waits from `start` to `start`, in order.
    fn walk_back(
        start: &str,
        reached: &BTreeMap<&str, (&'a str, &'a WaitSnapshot)>,
    ) -> Vec<(&'a str, &'a WaitSnapshot)> {
        let mut cycle = Vec::new();
        let mut at = start;
        while let Some((from, wait)) = reached.get(at) {
            cycle.push((*from, *wait));
            at = from;
            if at == start {
                break;
            }
        }
        cycle.reverse();
        cycle
    }
}
