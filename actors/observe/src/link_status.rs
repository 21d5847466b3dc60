//! State of a connection in snapshots.

use std::fmt;

use serde::{Deserialize, Serialize};

/// State of a connection, see [`Link`](crate::Link).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkStatus {
    /// Closed because it is not needed at present.
    Idle,
    /// Not connected yet.
    Connecting,
    /// Connected.
    Up,
    /// Lost or refused.
    Down,
    /// A request has had no answer for a while.
    Unanswered,
    /// In the JSON of another instance: not known to this version.
    #[serde(other)]
    Unknown,
}

impl LinkStatus {
    /// All states of a connection in this process, in the order of their numbers.
    pub const ALL: [LinkStatus; 5] = [Self::Idle, Self::Connecting, Self::Up, Self::Down, Self::Unanswered];
    /// Names in the tree, in the order of the states.
    pub const NAMES: [&str; 5] = ["idle", "connecting", "up", "down", "unanswered"];

    /// True unless the connection is up or not needed.
    pub fn is_away(self) -> bool {
        !matches!(self, Self::Up | Self::Idle)
    }

    /// Name in the tree.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(self as usize).copied().unwrap_or("unknown")
    }
}

impl fmt::Display for LinkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
