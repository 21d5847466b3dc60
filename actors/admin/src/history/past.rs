//! The tree at a past time: the present tree with the values of a sample. Children that were removed since
//! are missing. No I/O.

use std::collections::HashMap;

use orchestrator_observe::{LinkStatus, MailboxSnapshot, NodeSnapshot, TreeSnapshot};
use orchestrator_supervise::State;

use super::sample::Values;

/// Replaces the values in a snapshot of the tree with those of a sample. Data that samples lack is removed:
/// reasons, work in progress, exits, notes and histograms. A child's mailboxes become one.
pub(crate) fn rewind(snapshot: &mut TreeSnapshot, at_ms: u64, values: &Values<'_>) {
    let passed = snapshot.captured_at_ms.saturating_sub(at_ms);
    snapshot.captured_at_ms = at_ms;
    snapshot.uptime_ms = snapshot.uptime_ms.saturating_sub(passed);
    let none = HashMap::new();
    visit(&mut snapshot.root, values, &none);
}

fn visit(node: &mut NodeSnapshot, values: &Values<'_>, none: &HashMap<&str, i64>) {
    let of = values.get(node.path.as_str()).unwrap_or(none);
    let number = |metric: &str| of.get(metric).copied().unwrap_or(0).max(0).cast_unsigned();
    let at = |metric: &str| usize::try_from(*of.get(metric)?).ok();
    let state = at("child_state").and_then(|at| State::ALL.get(at).copied());
    node.state = state.unwrap_or(State::Stopped);
    node.stuck = number("child_stuck") > 0;
    node.incarnation = number("child_incarnation");
    node.restarts = number("child_restarts");
    node.planned_restarts = number("child_planned_restarts");
    node.started_ms = 0;
    (node.in_progress, node.last_exit, node.note) = (None, None, None);
    node.waits.clear();
    node.timings.clear();
    node.link = node.link.take().and_then(|mut link| {
        link.state = *LinkStatus::ALL.get(at("link_state")?)?;
        (link.reason, link.retry_in_ms, link.since_ms, link.attempts) = (None, None, None, None);
        Some(link)
    });
    if !node.mailboxes.is_empty() {
        node.mailboxes = vec![MailboxSnapshot {
            name: "all".to_owned(),
            depth: usize::try_from(number("mailbox_depth")).unwrap_or(usize::MAX),
            capacity: node.mailboxes.iter().map(|mailbox| mailbox.capacity).sum(),
            high_water: 0,
            refused: number("mailbox_refused"),
            handled: number("mailbox_handled"),
            purged: 0,
            messages: Vec::new(),
        }];
    }
    node.metrics.retain_mut(|metric| {
        let name = match &metric.label {
            None => metric.name.clone(),
            Some(label) => format!("{}{{{}={}}}", metric.name, label.name, label.value),
        };
        let value = of.get(name.as_str());
        metric.value = value.copied().unwrap_or(0);
        value.is_some()
    });
    node.children.retain(|child| values.contains_key(child.path.as_str()));
    node.children.iter_mut().for_each(|child| visit(child, values, none));
}
