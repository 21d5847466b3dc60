//! Whether a child takes new work.

/// Who has a say in whether new work is taken.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Intake {
    /// The operator's wish; outlives restarts.
    pub(crate) paused: bool,
    /// A stop opens the intake again, so that what waits is drained.
    pub(crate) draining: bool,
}

impl Intake {
    pub(crate) fn is_open(self) -> bool {
        !self.paused || self.draining
    }
}
