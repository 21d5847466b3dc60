//! Faults of one ingester as lines of dranspose's log (CONTRACT ID10): exits, links that are down, and notes. Pure.

use std::collections::BTreeMap;

use orchestrator_supervise::{Event, EventKind, NodeSnapshot, TEXT_MAX, sanitize_to};

/// Longest text of a line, bytes: a reason, and what is said of it.
const TEXT_BYTES_MAX: usize = 2 * TEXT_MAX;

/// How bad it is, in the words of Python's logging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The rest goes on.
    Warning,
    /// Something was lost.
    Error,
}

impl Level {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How bad.
    pub level: Level,
    /// Path of the child that it is about.
    pub path: String,
    /// What happened.
    pub text: String,
    /// When, milliseconds since 1970.
    pub at_ms: u64,
}

/// Finds what is new.
#[derive(Debug, Default)]
pub struct Watch {
    /// The last event that was looked at.
    seen: u64,
    /// When each child's last note was made.
    notes: BTreeMap<String, u64>,
}

impl Watch {
    /// The last event that was looked at.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The lines of `events`, those after the last one, as far as they are of `branch` or below, and of its new notes; in order of time.
    pub fn lines(&mut self, events: &[Event], branch: &NodeSnapshot) -> Vec<Line> {
        self.seen = events.last().map_or(self.seen, |event| event.seq);
        let below = format!("{}/", branch.path);
        let ours = events.iter().filter(|event| event.path == branch.path || event.path.starts_with(&below));
        let mut lines: Vec<_> = ours.filter_map(of_event).collect();
        branch.walk(&mut |node| {
            let Some(note) = &node.note else { return };
            if self.notes.insert(node.path.clone(), note.at_ms) != Some(note.at_ms) {
                let (path, text) = (node.path.clone(), note.text.clone());
                lines.push(Line { level: Level::Warning, path, text, at_ms: note.at_ms });
            }
        });
        lines.iter_mut().for_each(|line| line.text = sanitize_to(&line.text, TEXT_BYTES_MAX));
        lines.sort_by_key(|line| line.at_ms);
        lines
    }
}

fn of_event(event: &Event) -> Option<Line> {
    let (level, text) = match &event.kind {
        EventKind::Exited { reason, .. }
            if reason.starts_with("panicked") || reason.starts_with("failed") =>
        {
            (Level::Error, reason.clone())
        }
        EventKind::Escalated { reason } => (Level::Error, format!("it gives up: {reason}")),
        EventKind::StopTimedOut { depth, .. } => {
            (Level::Error, format!("it did not stop in time, {depth} messages wait"))
        }
        EventKind::LinkDown { reason } => (Level::Warning, reason.clone()),
        _ => return None,
    };
    Some(Line { level, path: event.path.clone(), text, at_ms: event.at_ms })
}
