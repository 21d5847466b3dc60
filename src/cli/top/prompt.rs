//! Commands to a child: the reason is typed first, then the command is confirmed. No I/O.

use orchestrator_subsystem::wire::REASON_LIMIT;

use crate::cli::top::input::Key;

/// Kind of a command to a child.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verb {
    key: char,
    /// Name in the URL.
    pub(super) name: &'static str,
    /// Effect of the command in one sentence.
    pub(super) effect: &'static str,
}

static VERBS: [Verb; 5] = [
    Verb {
        key: 'r',
        name: "restart",
        effect: "The child is stopped and started again; siblings restart with it as its supervisor's strategy says.",
    },
    Verb { key: 'x', name: "stop", effect: "The child is stopped until it is started again." },
    Verb { key: 'a', name: "start", effect: "The child is started." },
    Verb { key: 'p', name: "pause", effect: "The child accepts no new work until it is resumed." },
    Verb { key: 'u', name: "resume", effect: "The child accepts new work again." },
];

impl Verb {
    pub(super) fn of_key(key: Key) -> Option<&'static Self> {
        VERBS.iter().find(|verb| Key::Char(verb.key) == key)
    }
}

/// Command with its target and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) verb: &'static Verb,
    pub(super) path: String,
    pub(super) reason: String,
}

impl Command {
    /// Adds a typed character to the reason. Control characters, and characters beyond the limit of the
    /// endpoint, are ignored.
    pub(super) fn type_reason(&mut self, c: char) {
        if self.reason.len() + c.len_utf8() <= REASON_LIMIT && !c.is_control() {
            self.reason.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_at_most_the_length_that_the_endpoint_accepts() {
        let mut command = Command { verb: &VERBS[1], path: "o/a".to_owned(), reason: String::new() };
        (0..REASON_LIMIT).for_each(|_| command.type_reason('ä'));
        command.type_reason('\u{1b}');
        assert_eq!(command.reason, "ä".repeat(REASON_LIMIT / 2));
    }
}
