//! Restart strategies and restart policies. Pure.

use std::ops::Range;

/// OTP's restart strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Restarts only the child that exited.
    #[default]
    OneForOne,
    /// Restarts all children.
    OneForAll,
    /// Restarts the child that exited and all children after it.
    RestForOne,
}

impl Strategy {
    /// Positions of the children that are restarted when child `index` of `count` exits.
    pub fn affected(self, index: usize, count: usize) -> Range<usize> {
        match self {
            Strategy::OneForOne => index..index + 1,
            Strategy::OneForAll => 0..count,
            Strategy::RestForOne => index..count,
        }
    }

    /// Name in OTP, logs and the tree.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::OneForOne => "one_for_one",
            Strategy::OneForAll => "one_for_all",
            Strategy::RestForOne => "rest_for_one",
        }
    }
}

/// Restart policy of a child (OTP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restart {
    /// Restarted after every exit, also a normal one.
    #[default]
    Permanent,
    /// Restarted after an abnormal exit only.
    Transient,
}

impl Restart {
    /// Returns true if a child with this policy is restarted after `exit`.
    pub fn applies_to(self, exit: &crate::Exit) -> bool {
        match self {
            Restart::Permanent => true,
            Restart::Transient => exit.is_abnormal(),
        }
    }

    /// Name in OTP, logs and the tree.
    pub fn name(self) -> &'static str {
        match self {
            Restart::Permanent => "permanent",
            Restart::Transient => "transient",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Exit, Fault};

    #[test]
    fn affected_follows_otp() {
        assert_eq!(Strategy::OneForOne.affected(1, 4), 1..2);
        assert_eq!(Strategy::OneForAll.affected(1, 4), 0..4);
        assert_eq!(Strategy::RestForOne.affected(1, 4), 1..4);
    }

    #[test]
    fn restart_table_follows_otp() {
        let failed = Exit::Failed(Fault::new("x"));
        for (exit, permanent, transient) in [
            (Exit::Normal, true, false),
            (Exit::Shutdown, true, false),
            (failed, true, true),
            (Exit::Panicked(String::new()), true, true),
            (Exit::Killed, true, true),
        ] {
            assert_eq!(Restart::Permanent.applies_to(&exit), permanent);
            assert_eq!(Restart::Transient.applies_to(&exit), transient);
        }
    }
}
