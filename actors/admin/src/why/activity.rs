//! Last finished work of a branch, and the start of the time without work.

use orchestrator_observe::{NodeSnapshot, WorkSnapshot};

use crate::timestamp::{rfc3339, seconds};

/// Time without finished work after which a branch without waiting work is idle.
const IDLE_AFTER_MS: u64 = 1_000;

/// Work of a branch.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Activity {
    pub(super) last_work: Option<WorkSnapshot>,
    pub(super) idle_since_ms: Option<u64>,
    /// Both in words.
    pub(super) text: String,
}

impl Activity {
    /// Work of the children of `branch`; empty if none of them counts work.
    pub(super) fn of(branch: &NodeSnapshot, now_ms: u64) -> Self {
        let (mut last, mut waits): (Option<WorkSnapshot>, bool) = (None, false);
        branch.walk(&mut |node| {
            waits |= node.in_progress.is_some() || node.mailboxes.iter().any(|mailbox| mailbox.depth > 0);
            let Some(work) = &node.last_work else { return };
            waits |= work.waits;
            if last.as_ref().is_none_or(|newest| newest.at_ms < work.at_ms) {
                last = Some(work.clone());
            }
        });
        let Some(mut last) = last else { return Self::default() };
        last.waits = waits;
        let since_ms = last.at_ms.unwrap_or(branch.started_ms);
        let is_idle = !waits && now_ms.saturating_sub(since_ms) >= IDLE_AFTER_MS;
        let idle_since_ms = is_idle.then_some(since_ms);
        Self { text: text(&last, idle_since_ms, now_ms), last_work: Some(last), idle_since_ms }
    }
}

fn text(last: &WorkSnapshot, idle_since_ms: Option<u64>, now_ms: u64) -> String {
    let unit = &last.unit;
    let done = match last.at_ms {
        Some(at_ms) => format!("last {unit} {:.1} s ago", seconds(now_ms.saturating_sub(at_ms))),
        None => format!("no {unit} since the start"),
    };
    match idle_since_ms {
        Some(since_ms) => {
            format!("idle since {}: nothing waits; {done}", rfc3339(since_ms))
        }
        None if last.waits => format!("{done}; more work waits"),
        None => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_described_with_its_unit_and_age() {
        let at = |at_ms, waits| WorkSnapshot { unit: "job".to_owned(), at_ms, waits };
        assert_eq!(text(&at(Some(800), false), None, 1_000), "last job 0.2 s ago");
        assert_eq!(text(&at(Some(800), true), None, 9_000), "last job 8.2 s ago; more work waits");
        assert_eq!(text(&at(None, true), None, 9_000), "no job since the start; more work waits");
        assert_eq!(
            text(&at(Some(0), false), Some(0), 5_000),
            "idle since 1970-01-01T00:00:00.000Z: nothing waits; last job 5.0 s ago"
        );
    }
}
