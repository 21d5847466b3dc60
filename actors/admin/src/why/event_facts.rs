//! Facts about the children that are read from the event log: commands in effect, and recent exits.

use std::collections::BTreeMap;

use orchestrator_observe::{Event, EventKind, is_in_branch};
use orchestrator_supervise::{Command, Tree};

/// Age up to which exits are kept, in milliseconds.
const EXITS_KEPT_MS: u64 = 60_000;

/// Facts of all events so far. Each event is read once.
#[derive(Debug, Default)]
pub(crate) struct EventFacts {
    /// Number of the last event read.
    seq: u64,
    /// The last pause or stop of each child that succeeded and was not undone.
    pub(super) commands: BTreeMap<String, InEffect>,
    /// Exits of each child within the last minute, with their times, oldest first.
    pub(super) exits: BTreeMap<String, Vec<(u64, String)>>,
}

/// Command of an operator that is in effect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InEffect {
    pub(super) command: Command,
    /// Time, milliseconds since 1970.
    pub(super) at_ms: u64,
    pub(super) by: String,
    /// Empty if none was given.
    reason: String,
}

impl InEffect {
    /// Command, operator and reason.
    pub(super) fn text(&self) -> String {
        let reason = if self.reason.is_empty() { "no reason given" } else { &self.reason };
        format!("{} by {}: {reason}", self.command.name(), self.by)
    }
}

impl EventFacts {
    /// Reads the new events of `tree`.
    pub(super) fn update(&mut self, tree: &Tree, now_ms: u64) {
        tree.events(self.seq).into_iter().for_each(|event| self.add(event));
        self.forget_exits(now_ms);
    }

    fn add(&mut self, event: Event) {
        let Event { seq, at_ms, path, kind } = event;
        self.seq = seq;
        match kind {
            EventKind::Commanded { verb, by, reason, outcome } if outcome == "ok" => {
                match Command::parse(&verb) {
                    Some(command @ (Command::Pause(_) | Command::Stop)) => {
                        self.commands.insert(path, InEffect { command, at_ms, by, reason });
                    }
                    // A pause outlives a restart.
                    Some(Command::Start | Command::Restart) => {
                        self.commands
                            .retain(|of, known| *of != path || matches!(known.command, Command::Pause(_)));
                    }
                    // The event of a console follows those of the commands that it gave to children.
                    None => {
                        let given = self.commands.values_mut().filter(|known| known.by == path);
                        given.for_each(|known| known.by.clone_from(&by));
                    }
                    Some(_) => {}
                }
            }
            EventKind::Exited { reason, .. } if reason != "shutdown" => {
                self.exits.entry(path).or_default().push((at_ms, reason));
            }
            EventKind::Removed => {
                self.commands.retain(|of, _| !is_in_branch(of, &path));
                self.exits.retain(|of, _| !is_in_branch(of, &path));
            }
            _ => {}
        }
    }

    fn forget_exits(&mut self, now_ms: u64) {
        self.exits.retain(|_, exits| {
            // Those after a clock that went back are older.
            exits.retain(|(at_ms, _)| *at_ms <= now_ms && now_ms - at_ms <= EXITS_KEPT_MS);
            !exits.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_last_until_they_are_undone_and_exits_for_a_minute() {
        let mut facts = EventFacts::default();
        let mut add = |at_ms, path: &str, kind| {
            facts.add(Event { seq: facts.seq + 1, at_ms, path: path.to_owned(), kind });
            facts.forget_exits(at_ms);
            (facts.commands.keys().cloned().collect::<String>(), facts.exits.get("a").map_or(0, Vec::len))
        };
        let command = |verb: &str, outcome: &str| EventKind::Commanded {
            verb: verb.to_owned(),
            by: "uid 0".to_owned(),
            reason: String::new(),
            outcome: outcome.to_owned(),
        };
        let exited =
            || EventKind::Exited { incarnation: 1, reason: "failed: x".to_owned(), in_progress: None };
        assert_eq!(add(0, "a", command("pause", "ok")), ("a".to_owned(), 0));
        assert_eq!(add(1, "b", command("stop", "it does not run")), ("a".to_owned(), 0));
        assert_eq!(add(2, "b", command("stop", "ok")), ("ab".to_owned(), 0));
        assert_eq!(add(3, "a", command("restart", "ok")), ("ab".to_owned(), 0), "a pause outlives a restart");
        assert_eq!(add(4, "b", command("start", "ok")), ("a".to_owned(), 0));
        assert_eq!(add(5, "a", exited()), ("a".to_owned(), 1));
        assert_eq!(add(60_000, "a", exited()), ("a".to_owned(), 2));
        assert_eq!(add(60_006, "b", exited()), ("a".to_owned(), 1));
        assert_eq!(add(60_007, "a", EventKind::Removed), (String::new(), 0));
        // The operator of a console that paused a child.
        let by = |by: &str, verb: &str| EventKind::Commanded {
            verb: verb.to_owned(),
            by: by.to_owned(),
            reason: "disk".to_owned(),
            outcome: "ok".to_owned(),
        };
        add(60_008, "o/rule", by("o/console", "pause"));
        add(60_009, "o/console", by("uid 7", "catalog pause"));
        assert_eq!(facts.commands["o/rule"].text(), "pause by uid 7: disk");
    }
}
