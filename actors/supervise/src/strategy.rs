//! Which siblings share the fate of a child that exited. Pure.

use std::ops::Range;

/// OTP's restart strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Only the child that exited is restarted.
    #[default]
    OneForOne,
    /// All children are stopped and started again.
    OneForAll,
    /// The child that exited and all that were started after it.
    RestForOne,
}

impl Strategy {
    /// The children, by position, that are stopped and started when child `index` of `count` exited.
    pub fn affected(self, index: usize, count: usize) -> Range<usize> {
        match self {
            Strategy::OneForOne => index..index + 1,
            Strategy::OneForAll => 0..count,
            Strategy::RestForOne => index..count,
        }
    }

    /// The name that OTP, logs and the tree use.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::OneForOne => "one_for_one",
            Strategy::OneForAll => "one_for_all",
            Strategy::RestForOne => "rest_for_one",
        }
    }
}

/// Whether a child that exited is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Restart {
    /// Always, even after a normal exit.
    #[default]
    Permanent,
    /// Only after an abnormal exit.
    Transient,
    /// Never, not even by a sibling's strategy.
    Temporary,
}

impl Restart {
    /// OTP's table: is a child with this policy restarted after `exit`?
    pub fn applies_to(self, exit: &crate::Exit) -> bool {
        match self {
            Restart::Permanent => true,
            Restart::Transient => exit.is_abnormal(),
            Restart::Temporary => false,
        }
    }

    /// The name that OTP, logs and the tree use.
    pub fn name(self) -> &'static str {
        match self {
            Restart::Permanent => "permanent",
            Restart::Transient => "transient",
            Restart::Temporary => "temporary",
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
            assert!(!Restart::Temporary.applies_to(&exit));
        }
    }
}
