//! Log lines for dranspose about one ingester (CONTRACT ID10): exits, links that are down, and
//! notes. Pure.

use std::collections::BTreeMap;

use orchestrator_observe::{Event, EventKind, NodeSnapshot};
use orchestrator_text::{TEXT_MAX, sanitize_to};

/// Longest text of a line, bytes: a reason and its context.
const TEXT_BYTES_MAX: usize = 2 * TEXT_MAX;

/// Severity, in the words of Python's logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Operation continues.
    Warning,
    /// Something was lost.
    Error,
}

impl Level {
    /// Name of the level in Python's logging.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

/// A log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLine {
    /// Severity.
    pub level: Level,
    /// Path of the child that the line is about.
    pub path: String,
    /// Text.
    pub text: String,
    /// Time, milliseconds since 1970.
    pub at_ms: u64,
}

/// Collector of new log lines.
#[derive(Debug, Default)]
pub(crate) struct LogCollector {
    /// Sequence number of the last processed event.
    last_seq: u64,
    /// Time of each child's last note, milliseconds since 1970.
    notes: BTreeMap<String, u64>,
}

impl LogCollector {
    /// Sequence number of the last processed event.
    pub(crate) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Lines of `events` and of new notes at or below `branch`, in order of time.
    pub(crate) fn lines(&mut self, events: &[Event], branch: &NodeSnapshot) -> Vec<LogLine> {
        self.last_seq = events.last().map_or(self.last_seq, |event| event.seq);
        let below = format!("{}/", branch.path);
        let ours = events.iter().filter(|event| event.path == branch.path || event.path.starts_with(&below));
        let mut lines: Vec<_> = ours.filter_map(line_of_event).collect();
        branch.walk(&mut |node| {
            let Some(note) = &node.note else { return };
            if self.notes.insert(node.path.clone(), note.at_ms) != Some(note.at_ms) {
                let (path, text) = (node.path.clone(), note.text.clone());
                lines.push(LogLine { level: Level::Warning, path, text, at_ms: note.at_ms });
            }
        });
        lines.iter_mut().for_each(|line| line.text = sanitize_to(&line.text, TEXT_BYTES_MAX));
        lines.sort_by_key(|line| line.at_ms);
        lines
    }
}

fn line_of_event(event: &Event) -> Option<LogLine> {
    let (level, text) = match &event.kind {
        EventKind::Exited { reason, .. }
            if reason.starts_with("panicked") || reason.starts_with("failed") =>
        {
            (Level::Error, reason.clone())
        }
        EventKind::Escalated { reason } => (Level::Error, format!("the supervisor gave up: {reason}")),
        EventKind::GivenUp { reason, .. } => (Level::Error, format!("given up, tried again later: {reason}")),
        EventKind::StopTimedOut { depth, .. } => {
            (Level::Error, format!("it did not stop in time; {depth} messages are pending"))
        }
        EventKind::LinkDown { reason } | EventKind::LinkUnanswered { reason } => {
            (Level::Warning, reason.clone())
        }
        _ => return None,
    };
    Some(LogLine { level, path: event.path.clone(), text, at_ms: event.at_ms })
}
