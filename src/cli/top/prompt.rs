//! Commands to a child: the reason is typed first, then the command is confirmed. No I/O.

use orchestrator_subsystem::wire::REASON_LIMIT;

/// Command to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Restart,
    Stop,
    Start,
    Pause,
    Resume,
}

impl Verb {
    /// Returns the verb of a key.
    pub(super) fn of_key(key: char) -> Option<Self> {
        Some(match key {
            'r' => Self::Restart,
            'x' => Self::Stop,
            'a' => Self::Start,
            'p' => Self::Pause,
            'u' => Self::Resume,
            _ => return None,
        })
    }

    /// Name in the URL.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    /// Effect of the command in one sentence.
    pub(super) fn effect(self) -> &'static str {
        match self {
            Self::Restart => {
                "The child is stopped and started again; siblings restart with it as its supervisor's strategy says."
            }
            Self::Stop => "The child is stopped until it is started again.",
            Self::Start => "The child is started.",
            Self::Pause => "The child accepts no new work until it is resumed.",
            Self::Resume => "The child accepts new work again.",
        }
    }
}

/// Command with its target and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) verb: Verb,
    pub(super) path: String,
    pub(super) reason: String,
}

impl Command {
    /// Adds a typed character to the reason. Control characters, and characters beyond the limit of the endpoint, are ignored.
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
        let mut command = Command { verb: Verb::Stop, path: "o/a".to_owned(), reason: String::new() };
        (0..REASON_LIMIT).for_each(|_| command.type_reason('ä'));
        command.type_reason('\u{1b}');
        assert_eq!(command.reason, "ä".repeat(REASON_LIMIT / 2));
    }
}
