//! The tree as text, one line for each child, for the endpoint and the CLI. No I/O.

use orchestrator_observe::{
    ExitSnapshot, LinkSnapshot, MailboxSnapshot, NodeSnapshot, TreeSnapshot, without_root,
};
use orchestrator_supervise::State;

use orchestrator_subsystem::{columns::align, until_text};

use crate::{readiness::STOPPING, waiting::branch_of};

/// Right-aligned columns: restarts, age.
const RIGHT: [usize; 2] = [2, 3];

/// Formats the tree of a snapshot as a table.
pub fn render(snapshot: &TreeSnapshot) -> String {
    let head = ["CHILD", "STATE", "RESTARTS", "AGE", "MAILBOX", "LINK AND NOTES"];
    let rows = vec![head.map(str::to_owned).to_vec()];
    let mut table = TreeTable { now_ms: snapshot.captured_at_ms, rows };
    table.add(&snapshot.root, &snapshot.root.path, "");
    align(&table.rows, &RIGHT)
}

/// Formats a duration in at most two units, e.g. `2m05s`.
pub fn format_duration(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0 => format!("{ms}ms"),
        1..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

/// The rows of the table.
struct TreeTable {
    now_ms: u64,
    rows: Vec<Vec<String>>,
}

impl TreeTable {
    /// Adds the rows of `node` and its descendants.
    fn add(&mut self, node: &NodeSnapshot, name: &str, indent: &str) {
        let label = node.label.as_ref().filter(|label| **label != node.id);
        let label = label.map(|label| format!(" ({label})")).unwrap_or_default();
        let runs = matches!(node.state, State::Running | State::Paused);
        let age = if runs { self.since(node.started_ms) } else { String::new() };
        self.rows.push(vec![
            format!("{name}{label}"),
            node.shown().to_owned(),
            node.restarts.to_string(),
            age,
            mailboxes(&node.mailboxes),
            self.notes(node),
        ]);
        let last = node.children.len().saturating_sub(1);
        for (i, child) in node.children.iter().enumerate() {
            let (branch, below) = if i == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.add(child, &format!("{indent}{branch}{}", child.id), &format!("{indent}{below}"));
        }
    }

    /// The last column: faults, the link, a pause, and the children of other branches that get its messages.
    fn notes(&self, node: &NodeSnapshot) -> String {
        let mut notes = Vec::new();
        if node.stuck {
            notes.push(stuck(node));
        }
        notes.extend(node.link.as_ref().map(link));
        let refused: u64 = node.mailboxes.iter().map(|mailbox| mailbox.refused).sum();
        if refused > 0 {
            notes.push(format!("{refused} refused"));
        }
        notes.extend(node.last_exit.as_ref().and_then(|exit| self.last_exit(exit)));
        notes.extend(node.retry_in_ms.map(|ms| format!("tried again in {}", format_duration(ms))));
        notes.extend(node.note.as_ref().map(|note| format!("{} ago: {}", self.since(note.at_ms), note.text)));
        if node.paused_until_ms.is_some() {
            notes.push(format!("paused{}", until_text(node.paused_until_ms)));
        }
        // The state of a child that an operator paused by its console is "running".
        let paused =
            node.blocker.as_ref().filter(|blocker| ["paused", STOPPING].contains(&blocker.kind.as_str()));
        notes.extend(paused.map(|blocker| blocker.text.clone()));
        let elsewhere = node.sends_to.iter().filter(|path| branch_of(path) != branch_of(&node.path));
        notes.extend(elsewhere.map(|path| format!("-> {}", without_root(path))));
        notes.join("; ")
    }

    fn last_exit(&self, exit: &ExitSnapshot) -> Option<String> {
        if matches!(exit.kind.as_str(), "normal" | "shutdown") {
            return None;
        }
        let message = exit.in_progress.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
        Some(format!("last exit {} ago{message}: {}", self.since(exit.at_ms), exit.reason))
    }

    fn since(&self, ms: u64) -> String {
        format_duration(self.now_ms.saturating_sub(ms))
    }
}

fn link(link: &LinkSnapshot) -> String {
    let mut text = format!("{} {}", link.kind, link.state);
    if let Some(reason) = &link.reason {
        text.push_str(&format!(": {reason}"));
    }
    if let Some(attempts) = link.attempts.filter(|attempts| *attempts > 0) {
        text.push_str(&format!(" (try {attempts})"));
    }
    if let Some(ms) = link.retry_in_ms {
        text.push_str(&format!(" (again in {})", format_duration(ms)));
    }
    text
}

fn stuck(node: &NodeSnapshot) -> String {
    match &node.in_progress {
        Some(work) => format!("stuck in {} for {}", work.name, format_duration(work.for_ms)),
        None if node.state == State::Stuck => "stuck: it did not stop".to_owned(),
        None => format!("stuck: arbiter {} is blocked", node.arbiter.as_deref().unwrap_or("?")),
    }
}

/// Formats the depth and capacity of the fullest mailbox: `3/1024`, with its name if there are several.
fn mailboxes(mailboxes: &[MailboxSnapshot]) -> String {
    let fill = |mailbox: &MailboxSnapshot| mailbox.depth as f64 / mailbox.capacity.max(1) as f64;
    // The first of equally full mailboxes, so that the text does not change at random.
    let fullest = mailboxes.iter().rev().max_by(|a, b| fill(a).total_cmp(&fill(b)));
    fullest.map_or_else(String::new, |mailbox| {
        let name = if mailboxes.len() > 1 { format!(" {}", mailbox.name) } else { String::new() };
        format!("{}/{}{name}", mailbox.depth, mailbox.capacity)
    })
}
