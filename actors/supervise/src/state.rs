//! Where a child stands.

/// Where a child stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Not started, stopped by an operator, or finished for good.
    Stopped = 0,
    /// Its factory or `started` runs.
    Starting = 1,
    /// At work.
    Running = 2,
    /// Running with its intake closed.
    Paused = 3,
    /// Asked to stop, draining.
    Stopping = 4,
    /// Ended, waiting for its next start.
    BackingOff = 5,
    /// A thread that did not end at its deadline and cannot be dropped.
    Stuck = 6,
}

impl State {
    const ALL: [State; 7] = [
        State::Stopped,
        State::Starting,
        State::Running,
        State::Paused,
        State::Stopping,
        State::BackingOff,
        State::Stuck,
    ];

    pub(crate) fn from_index(index: u8) -> Self {
        Self::ALL[usize::from(index)]
    }

    /// The word shown in the tree.
    pub fn name(self) -> &'static str {
        ["stopped", "starting", "running", "paused", "stopping", "backing_off", "stuck"][self as usize]
    }
}
