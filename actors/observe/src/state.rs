//! State of a child.

use std::fmt;

use serde::{Deserialize, Serialize};

/// State of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum State {
    /// Not started, stopped by an operator, or finished for good.
    Stopped = 0,
    /// Its factory or `started` runs, or its first poll is not over.
    Starting = 1,
    /// Up.
    Running = 2,
    /// Up, but takes no messages.
    Paused = 3,
    /// Asked to stop; handles waiting messages.
    Stopping = 4,
    /// Ended; restarted after a delay.
    BackingOff = 5,
    /// A thread that did not end by its deadline and cannot be dropped.
    Stuck = 6,
    /// Exceeded its restart intensity; started again after a long delay.
    GivenUp = 7,
    /// In the JSON of another instance: not known to this version.
    #[serde(other)]
    Unknown = 8,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl State {
    /// All states of a child in this process, in the order of their numbers.
    pub const ALL: [State; 8] = [
        State::Stopped,
        State::Starting,
        State::Running,
        State::Paused,
        State::Stopping,
        State::BackingOff,
        State::Stuck,
        State::GivenUp,
    ];

    /// The state with this number, as `State as u8` gives it.
    pub fn from_index(index: u8) -> Self {
        Self::ALL.get(usize::from(index)).copied().unwrap_or(Self::Unknown)
    }

    /// Names in the tree, in the order of the states.
    pub const NAMES: [&str; 8] =
        ["stopped", "starting", "running", "paused", "stopping", "backing_off", "stuck", "given_up"];

    /// Name in the tree.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(self as usize).copied().unwrap_or("unknown")
    }
}
