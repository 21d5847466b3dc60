//! Facts beside a child's own state that decide what its cause is.

use std::collections::BTreeMap;

use orchestrator_observe::{LinkSnapshot, NodeSnapshot, TreeSnapshot};

use super::event_facts::EventFacts;
use crate::{
    fault::Faults,
    waiting::{Waiting, branch_of},
};

/// Facts that the events, the waits and the whole tree add to a child.
pub(super) struct Facts<'a> {
    pub(super) now_ms: u64,
    pub(super) events: &'a EventFacts,
    /// Operator and reason of each console's pause.
    pub(super) console_pauses: BTreeMap<String, String>,
    /// Children that wait for others.
    pub(super) waiting: Waiting,
    pub(super) faults: Faults,
    /// Period of the restart intensity that counts restarts of each child.
    pub(super) periods_ms: BTreeMap<&'a str, u64>,
    /// Link of each subsystem that waits longest for an answer of its peer, and the time, milliseconds.
    pub(super) waiting_links: BTreeMap<&'a str, (u64, &'a LinkSnapshot)>,
}

impl<'a> Facts<'a> {
    /// Reads the whole tree.
    pub(super) fn new(
        snapshot: &'a TreeSnapshot,
        events: &'a EventFacts,
        console_pauses: BTreeMap<String, String>,
    ) -> Self {
        let (root, now_ms) = (&snapshot.root, snapshot.captured_at_ms);
        Self {
            now_ms,
            events,
            console_pauses,
            waiting: Waiting::of(root, now_ms),
            faults: Faults::of(root, now_ms),
            periods_ms: periods_ms(root),
            waiting_links: waiting_links(root),
        }
    }
}

fn waiting_links(root: &NodeSnapshot) -> BTreeMap<&str, (u64, &LinkSnapshot)> {
    let mut links = BTreeMap::new();
    root.walk(&mut |node| {
        let Some((link, ms)) = node.link.as_ref().and_then(|link| Some((link, link.waits_ms?))) else {
            return;
        };
        let longest = links.entry(branch_of(&node.path)).or_insert((ms, link));
        if longest.0 < ms {
            *longest = (ms, link);
        }
    });
    links
}

fn periods_ms(root: &NodeSnapshot) -> BTreeMap<&str, u64> {
    let mut periods = BTreeMap::new();
    root.walk(&mut |node| {
        let children = node.children.iter().map(|child| child.path.as_str());
        periods.extend(children.zip(std::iter::repeat(node.period_ms)));
    });
    periods.into_iter().filter_map(|(path, period)| Some((path, period?))).collect()
}
