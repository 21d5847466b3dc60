//! The values of one child in a sample. No I/O.

use std::{collections::HashMap, fmt::Write};

use orchestrator_observe::NodeSnapshot;

/// Values by path and metric at one time.
pub(crate) type Values<'a> = HashMap<&'a str, HashMap<&'a str, i64>>;

/// Calls `put` with the name and value of each metric of a child.
pub(super) fn each(node: &NodeSnapshot, put: &mut dyn FnMut(&str, i64)) {
    put("child_state", node.state as i64);
    put("child_stuck", node.stuck.into());
    put("child_incarnation", signed(node.incarnation));
    put("child_restarts", signed(node.restarts));
    put("child_planned_restarts", signed(node.planned_restarts));
    put("in_progress_ms", node.in_progress.as_ref().map_or(0, |work| signed(work.for_ms)));
    if let Some(link) = &node.link {
        put("link_state", link.state as i64);
    }
    if !node.mailboxes.is_empty() {
        let sum = |value: fn(&orchestrator_observe::MailboxSnapshot) -> u64| {
            signed(node.mailboxes.iter().map(value).fold(0, u64::saturating_add))
        };
        put("mailbox_depth", sum(|mailbox| mailbox.depth as u64));
        put("mailbox_handled", sum(|mailbox| mailbox.handled));
        put("mailbox_refused", sum(|mailbox| mailbox.refused));
        let messages = node.mailboxes.iter().flat_map(|mailbox| &mailbox.messages);
        let slowest = messages.map(|message| message.handling_us[2]).max().unwrap_or(0);
        put("handling_p99_us", signed(slowest));
    }
    let mut name = String::new();
    for metric in &node.metrics {
        match &metric.label {
            None => put(&metric.name, metric.value),
            Some(label) => {
                name.clear();
                // Writing to a String cannot fail.
                let _ = write!(name, "{}{{{}={}}}", metric.name, label.name, label.value);
                put(&name, metric.value);
            }
        }
    }
    for timing in &node.timings {
        for (suffix, value) in [("count", timing.count), ("p99_us", timing.us[2])] {
            name.clear();
            let _ = write!(name, "{}_{suffix}{{{}={}}}", timing.name, timing.label, timing.value);
            put(&name, signed(value));
        }
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
