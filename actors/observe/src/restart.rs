//! Restart policies.

use crate::Exit;

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
    /// Names in the tree.
    pub const NAMES: [&str; 2] = ["permanent", "transient"];

    /// Returns true if a child with this policy is restarted after `exit`.
    pub fn applies_to(self, exit: &Exit) -> bool {
        match self {
            Restart::Permanent => true,
            Restart::Transient => exit.is_abnormal(),
        }
    }

    /// Name in OTP, logs and the tree.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

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
