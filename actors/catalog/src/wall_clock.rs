//! Wall clock: leases are written as points in time.

use std::time::Duration;

use jiff::Timestamp;

/// A source of the current time of day.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WallClock {
    /// The system's clock.
    System,
    /// Clock that shows `at` at the instant `since` and advances with tokio's clock, which tests
    /// can pause.
    #[cfg(test)]
    Fixed {
        /// Time shown at `since`.
        at: Timestamp,
        /// Instant at which `at` is shown.
        since: tokio::time::Instant,
    },
}

impl WallClock {
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            #[cfg(test)]
            Self::Fixed { at, since } => orchestrator_catalog_rules::path::saturating_add(
                *at,
                orchestrator_catalog_rules::path::signed(since.elapsed()),
            ),
        }
    }

    /// Zero if `at` has passed.
    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.now())).unwrap_or_default()
    }
}
