//! The tree as text, one line a child. Pure: the same snapshot gives the same text, for endpoint and CLI alike.

use orchestrator_supervise::{
    ExitSnapshot, LinkSnapshot, MailboxSnapshot, NodeSnapshot, NoteSnapshot, TreeSnapshot,
};

use orchestrator_subsystem::columns::align;

/// Are spans of time shown? Without them the text changes only when something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ages {
    /// For people.
    Show,
    /// For comparing.
    Hide,
}

/// Position of the columns that are aligned to the right: incarnation, restarts, age.
const RIGHT: [usize; 3] = [3, 4, 5];

/// Renders a tree, or the part of it that the snapshot holds.
pub fn render(snapshot: &TreeSnapshot, ages: Ages) -> String {
    let head = ["CHILD", "KIND", "STATE", "INC", "RESTARTS", "AGE", "MAILBOX", "LINK AND TROUBLE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    if ages == Ages::Hide {
        rows[0][5].clear();
    }
    let mut painter = Painter { now_ms: snapshot.captured_at_ms, ages, rows };
    painter.node(&snapshot.root, &snapshot.root.path, "");
    align(&painter.rows, &RIGHT)
}

/// A span of time in at most two units.
pub fn span(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0 => format!("{ms}ms"),
        1..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

struct Painter {
    now_ms: u64,
    ages: Ages,
    rows: Vec<Vec<String>>,
}

impl Painter {
    fn node(&mut self, node: &NodeSnapshot, name: &str, indent: &str) {
        let label = node.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
        let runs = matches!(node.state.as_str(), "running" | "paused");
        let age = if runs && self.ages == Ages::Show { self.since(node.started_ms) } else { String::new() };
        self.rows.push(vec![
            format!("{name}{label}"),
            node.kind.clone(),
            node.state.clone(),
            node.incarnation.to_string(),
            node.restarts.to_string(),
            age,
            mailboxes(&node.mailboxes),
            self.note(node),
        ]);
        let last = node.children.len().saturating_sub(1);
        for (i, child) in node.children.iter().enumerate() {
            let (branch, below) = if i == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.node(child, &format!("{indent}{branch}{}", child.id), &format!("{indent}{below}"));
        }
    }

    /// Trouble, the link, and the names of the state that outlives restarts.
    fn note(&self, node: &NodeSnapshot) -> String {
        let mut notes = Vec::new();
        if node.stuck {
            notes.push(self.stuck(node));
        }
        notes.extend(node.link.as_ref().map(|link| self.link(link)));
        let refused: u64 = node.mailboxes.iter().map(|mailbox| mailbox.refused).sum();
        if refused > 0 {
            notes.push(format!("{refused} refused"));
        }
        notes.extend(node.last_exit.as_ref().and_then(|exit| self.last_exit(exit)));
        notes.extend(node.note.as_ref().map(|note| self.set_aside(note)));
        if !node.durable.is_empty() {
            notes.push(format!("durable: {}", node.durable.join(", ")));
        }
        notes.join("; ")
    }

    fn stuck(&self, node: &NodeSnapshot) -> String {
        match (&node.in_progress, self.ages) {
            (Some(work), Ages::Show) => format!("stuck in {} for {}", work.name, span(work.for_ms)),
            (Some(work), Ages::Hide) => format!("stuck in {}", work.name),
            (None, _) if node.state == "stuck" => "stuck: it did not stop".to_owned(),
            (None, _) => format!("stuck: arbiter {} is blocked", node.arbiter.as_deref().unwrap_or("?")),
        }
    }

    fn link(&self, link: &LinkSnapshot) -> String {
        let mut text = format!("{} {}", link.kind, link.state);
        if let Some(reason) = &link.reason {
            text.push_str(&format!(": {reason}"));
        }
        if let Some(attempts) = link.attempts.filter(|attempts| *attempts > 0) {
            text.push_str(&format!(" (try {attempts})"));
        }
        if let (Some(ms), Ages::Show) = (link.retry_in_ms, self.ages) {
            text.push_str(&format!(" (again in {})", span(ms)));
        }
        text
    }

    fn last_exit(&self, exit: &ExitSnapshot) -> Option<String> {
        if matches!(exit.kind.as_str(), "normal" | "shutdown") {
            return None;
        }
        let ago = match self.ages {
            Ages::Show => format!(" {} ago", self.since(exit.at_ms)),
            Ages::Hide => String::new(),
        };
        let lost = exit.in_progress.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
        Some(format!("last exit{ago}{lost}: {}", exit.reason))
    }

    fn set_aside(&self, note: &NoteSnapshot) -> String {
        match self.ages {
            Ages::Show => format!("{} ago: {}", self.since(note.at_ms), note.text),
            Ages::Hide => note.text.clone(),
        }
    }

    fn since(&self, ms: u64) -> String {
        span(self.now_ms.saturating_sub(ms))
    }
}

/// `3/1024`; of several the fullest, with its name.
fn mailboxes(mailboxes: &[MailboxSnapshot]) -> String {
    let fill = |mailbox: &MailboxSnapshot| mailbox.depth as f64 / mailbox.capacity.max(1) as f64;
    // The first of equals, so that the text is steady.
    let fullest = mailboxes.iter().rev().max_by(|a, b| fill(a).total_cmp(&fill(b)));
    fullest.map_or_else(String::new, |mailbox| {
        let name = if mailboxes.len() > 1 { format!(" {}", mailbox.name) } else { String::new() };
        format!("{}/{}{name}", mailbox.depth, mailbox.capacity)
    })
}
