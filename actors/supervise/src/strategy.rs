//! Restart strategies. Pure.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affected_follows_otp() {
        assert_eq!(Strategy::OneForOne.affected(1, 4), 1..2);
        assert_eq!(Strategy::OneForAll.affected(1, 4), 0..4);
        assert_eq!(Strategy::RestForOne.affected(1, 4), 1..4);
    }
}
