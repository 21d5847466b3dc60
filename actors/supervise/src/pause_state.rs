//! Pause of one child.

/// Decides whether a child takes new messages and items.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PauseState {
    /// Set by an operator; outlives restarts.
    pub(crate) by_operator: bool,
    /// A graceful stop overrides the pause, so that waiting messages are handled.
    pub(crate) draining: bool,
}

impl PauseState {
    pub(crate) fn is_paused(self) -> bool {
        self.by_operator && !self.draining
    }
}
