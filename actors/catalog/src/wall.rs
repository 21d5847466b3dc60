//! What time it is by the calendar: leases are written as points in time.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// The clock on the wall.
#[derive(Debug, Clone, Copy)]
pub enum Wall {
    /// The system's.
    System,
    /// One that shows `at` at the instant `when` and goes with the runtime's clock, which tests stop and turn.
    Steady {
        /// What it shows then.
        at: Timestamp,
        /// When.
        when: Instant,
    },
}

impl Wall {
    /// What it shows.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            Self::Steady { at, when } => crate::path::after(*at, crate::path::signed(when.elapsed())),
        }
    }

    /// How long from now until it shows `at`; nothing if it already has.
    pub fn until(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.now())).unwrap_or_default()
    }
}
