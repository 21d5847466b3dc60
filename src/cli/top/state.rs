//! The state of the screen, changed by keys and by responses. No I/O; the caller provides the time.

use std::collections::{HashMap, VecDeque};

use orchestrator_subsystem::wire::{CommandResponse, ExitSnapshot, NodeSnapshot, TreeSnapshot};

use crate::cli::top::{
    crash::last_exit_ms,
    details::{Details, PERIOD_MS, Subject},
    listing::{Line, Listing},
    prompt::Command,
    rows::{Row, rows},
};

/// Number of exits that are kept, of all children.
const EXITS_MAX: usize = 256;

/// Meaning of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    List,
    Filter,
    Help,
    /// The reason of a command is typed.
    Reason(Command),
    /// The command waits for its confirmation.
    Confirm(Command),
}

/// Text below the list until the next key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) is_error: bool,
}

/// Lost connection to the instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Away {
    /// Wall clock at the first failure, milliseconds since 1970.
    pub(super) since_ms: u64,
    pub(super) reason: String,
}

/// Effect of a key outside of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Suspend,
    Send(Command),
}

/// State of the screen.
#[derive(Debug)]
pub(super) struct State {
    /// The last tree.
    pub(super) tree: TreeSnapshot,
    rows: Vec<Row>,
    /// True once two trees have been compared.
    pub(super) has_rates: bool,
    pub(super) lines: Vec<Line>,
    pub(super) listing: Listing,
    /// Number of the selected line.
    pub(super) selected: usize,
    pub(super) mode: Mode,
    /// First visible line of the details, if they are open.
    pub(super) drawer: Option<usize>,
    pub(super) details: Option<Details>,
    /// Reason why there are no details.
    pub(super) details_error: Option<String>,
    /// Exits since the start of `top`, oldest first.
    exits: VecDeque<(String, ExitSnapshot)>,
    pub(super) message: Option<Message>,
    pub(super) away: Option<Away>,
}

impl State {
    pub(super) fn new(listing: Listing, tree: TreeSnapshot) -> Self {
        let mut state = Self {
            rows: rows(&tree, &tree),
            tree,
            has_rates: false,
            lines: Vec::new(),
            listing,
            selected: 0,
            mode: Mode::List,
            drawer: None,
            details: None,
            details_error: None,
            exits: VecDeque::new(),
            message: None,
            away: None,
        };
        state.list();
        state
    }

    pub(super) fn take(&mut self, tree: TreeSnapshot) {
        self.rows = rows(&self.tree, &tree);
        self.has_rates = true;
        self.away = None;
        let mut former = HashMap::new();
        self.tree.root.walk(&mut |node| {
            former.insert(&node.path, &node.last_exit);
        });
        tree.root.walk(&mut |node| {
            let is_new = former.get(&node.path).is_some_and(|exit| **exit != node.last_exit);
            if let Some(exit) = node.last_exit.as_ref().filter(|_| is_new) {
                self.exits.push_back((node.path.clone(), exit.clone()));
            }
        });
        while self.exits.len() > EXITS_MAX {
            self.exits.pop_front();
        }
        self.tree = tree;
        self.list();
    }

    /// Processes a failed request. The last tree stays on the screen.
    pub(super) fn lose(&mut self, reason: String, now_ms: u64) {
        let since_ms = self.away.as_ref().map_or(now_ms, |away| away.since_ms);
        self.away = Some(Away { since_ms, reason });
    }

    pub(super) fn take_details(&mut self, details: Result<Details, String>) {
        match details {
            Ok(details) => (self.details, self.details_error) = (Some(details), None),
            Err(reason) => self.details_error = Some(reason),
        }
    }

    pub(super) fn finish(&mut self, command: &Command, result: Result<CommandResponse, String>) {
        let (text, is_error) = match result {
            Ok(done) => (format!("{}: {} -> {}", done.path, done.before, done.after), false),
            Err(reason) => (format!("{} {}: {reason}", command.verb.name, command.path), true),
        };
        self.message = Some(Message { text, is_error });
    }

    pub(super) fn line(&self) -> Option<&Line> {
        self.lines.get(self.selected)
    }

    pub(super) fn child(&self) -> Option<&NodeSnapshot> {
        self.tree.root.find(&self.line()?.row.path)
    }

    /// None unless the details are open.
    pub(super) fn subject(&self) -> Option<Subject> {
        self.drawer?;
        let child = self.child()?;
        let exit_ms = last_exit_ms(child);
        let former = self.details.as_ref().filter(|details| details.path == child.path);
        let known_crash = former.and_then(|details| details.crash.clone());
        Some(Subject {
            path: child.path.clone(),
            exit_ms,
            known_crash: known_crash.filter(|crash| Some(crash.exit_ms) == exit_ms),
            is_branch: child.mailboxes.is_empty() && !child.children.is_empty(),
            since_ms: self.tree.captured_at_ms.saturating_sub(PERIOD_MS),
        })
    }

    /// Newest first.
    pub(super) fn exits_of<'a>(&'a self, child: &'a NodeSnapshot) -> impl Iterator<Item = &'a ExitSnapshot> {
        let mut seen = self.exits.iter().rev().filter(|(path, _)| *path == child.path).map(|(_, exit)| exit);
        let newest = seen.next().or(child.last_exit.as_ref());
        newest.into_iter().chain(seen)
    }

    /// Makes the lines again. The selected child stays selected while it is in the list.
    pub(super) fn list(&mut self) {
        let key = self.line().map(|line| (line.row.path.clone(), line.row.peer.clone()));
        self.lines = self.listing.lines(&self.tree.root, &self.rows);
        let is_key = |line: &Line| {
            key.as_ref().is_some_and(|(path, peer)| *path == line.row.path && *peer == line.row.peer)
        };
        let found = self.lines.iter().position(is_key);
        if found.is_none() {
            self.drawer = self.drawer.map(|_| 0);
        }
        self.selected = found.unwrap_or(self.selected).min(self.lines.len().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::top::{
        rows::Sort,
        snapshots::{mailbox, node, of, tree},
    };

    fn state() -> State {
        State::new(Listing::new(Sort::Path, String::new()), tree(1_000, 1_000, 10))
    }

    #[test]
    fn the_selected_child_stays_selected_in_the_next_tree() {
        let mut state = state();
        state.selected = 2;
        assert_eq!(state.line().map(|line| line.row.path.as_str()), Some("o/b"));
        let mut root = node("o", "running", 0, &json!([]));
        root["children"] = json!([
            node("o/new", "running", 0, &json!([])),
            node("o/a", "running", 0, &mailbox(20)),
            node("o/b", "running", 4, &json!([])),
        ]);
        state.take(of(2_000, 2_000, &root));
        assert_eq!((state.selected, state.child().map(|child| child.restarts)), (3, Some(4)));
        root["children"] = json!([]);
        state.take(of(3_000, 3_000, &root));
        assert_eq!(state.selected, 0, "the child is gone");
    }

    #[test]
    fn exits_since_the_start_are_kept_up_to_a_limit() {
        let mut state = state();
        let mut next = tree(2_000, 2_000, 10);
        for at_ms in 0..EXITS_MAX as u64 + 10 {
            next.root.children[1].last_exit = Some(ExitSnapshot {
                kind: "panicked".to_owned(),
                reason: "panicked: x".to_owned(),
                at_ms,
                in_progress: None,
            });
            state.take(next.clone());
            state.take(next.clone());
        }
        let exits: Vec<u64> = state.exits_of(&next.root.children[1]).map(|exit| exit.at_ms).collect();
        assert_eq!((exits.len(), exits[0]), (EXITS_MAX, EXITS_MAX as u64 + 9));
        assert_eq!(state.exits_of(&next.root.children[0]).count(), 0);
    }

    #[test]
    fn a_lost_connection_has_the_time_of_its_first_failure() {
        let mut state = state();
        state.lose("refused".to_owned(), 5_000);
        state.lose("reset".to_owned(), 9_000);
        assert_eq!(state.away, Some(Away { since_ms: 5_000, reason: "reset".to_owned() }));
        state.take(tree(9_500, 100, 3));
        assert_eq!(state.away, None);
    }
}
