//! How often a supervisor restarts before it gives up, and how long it waits before each try. Pure: no clock.

use std::time::Duration;

/// Share of a delay that jitter may add or take, so that children which failed together do not return together.
const JITTER: f64 = 0.2;

/// Delay before a restart: doubles from `first` up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay before the first restart after a stable period.
    pub first: Duration,
    /// Longest delay, before jitter.
    pub max: Duration,
}

impl Backoff {
    /// 100 ms doubling to 30 s.
    pub const DEFAULT: Backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(30) };

    /// The delay before try `attempt` (counted from 0); `unit` in 0..=1 is the random part: 0.5 means no jitter.
    pub fn delay(&self, attempt: u32, unit: f64) -> Duration {
        let doubled = self.first.saturating_mul(1u32.checked_shl(attempt.min(31)).unwrap_or(u32::MAX));
        let factor = 1.0 - JITTER + 2.0 * JITTER * unit.clamp(0.0, 1.0);
        doubled.min(self.max).mul_f64(factor)
    }
}

/// OTP's restart intensity: more than `intensity` restarts within `period` and the supervisor gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Restarts allowed within the period.
    pub intensity: u32,
    /// Length of the sliding window.
    pub period: Duration,
    /// Delays between restarts.
    pub backoff: Backoff,
}

impl Limits {
    /// For a supervisor of workers: 5 in 30 s.
    pub const LEAF: Limits =
        Limits { intensity: 5, period: Duration::from_secs(30), backoff: Backoff::DEFAULT };
    /// For the root: 3 in 60 s.
    pub const ROOT: Limits =
        Limits { intensity: 3, period: Duration::from_secs(60), backoff: Backoff::DEFAULT };

    /// For a pool of `count` equal workers: max(5, count/4) in 30 s.
    pub fn pool(count: usize) -> Limits {
        let quarter = u32::try_from(count / 4).unwrap_or(u32::MAX);
        Limits { intensity: quarter.max(5), ..Limits::LEAF }
    }

    /// Refuses limits whose own delays stretch a crash storm beyond the window: then it would never be seen.
    /// A pool's members fail side by side, so only a single child's delays count.
    ///
    /// # Errors
    /// A text that names the sum and the period.
    pub fn validate(&self) -> Result<(), String> {
        let growing = self.intensity.min(32);
        let rest = self.backoff.delay(u32::MAX, 1.0).saturating_mul(self.intensity - growing);
        let longest =
            (0..growing).fold(rest, |sum, attempt| sum.saturating_add(self.backoff.delay(attempt, 1.0)));
        if longest >= self.period && self.intensity > 0 {
            return Err(format!(
                "the first {} restart delays add up to {longest:?}, which hides a crash storm from the period of {:?}: raise period or lower intensity or backoff",
                self.intensity, self.period
            ));
        }
        Ok(())
    }
}

/// The sliding window of restarts of one supervisor. Times are spans since any fixed start.
#[derive(Debug)]
pub struct RestartWindow {
    limits: Limits,
    restarts: std::collections::VecDeque<Duration>,
}

impl RestartWindow {
    /// An empty window.
    pub fn new(limits: Limits) -> Self {
        Self { limits, restarts: std::collections::VecDeque::new() }
    }

    /// Counts a restart at `now`; true when it is one too many (OTP: more than intensity within the last period).
    #[must_use]
    pub fn record(&mut self, now: Duration) -> bool {
        self.expire(now);
        self.restarts.push_back(now);
        self.restarts.len() > self.limits.intensity as usize
    }

    /// Restarts still free at `now`.
    pub fn left(&mut self, now: Duration) -> u32 {
        self.expire(now);
        self.limits.intensity.saturating_sub(u32::try_from(self.restarts.len()).unwrap_or(u32::MAX))
    }

    /// When the oldest restart leaves the window.
    pub(crate) fn next_expiry(&self) -> Option<Duration> {
        // A restart that is exactly one period old still counts.
        self.restarts.front().map(|at| *at + self.limits.period + Duration::from_millis(1))
    }

    fn expire(&mut self, now: Duration) {
        while self.restarts.front().is_some_and(|at| now.saturating_sub(*at) > self.limits.period) {
            self.restarts.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shipped_limits_are_valid() {
        for limits in [Limits::LEAF, Limits::ROOT] {
            assert_eq!(limits.validate(), Ok(()));
        }
    }

    #[test]
    fn backoff_that_hides_a_storm_is_refused() {
        let slow = Backoff { first: Duration::from_secs(10), max: Duration::from_secs(30) };
        assert!(Limits { backoff: slow, ..Limits::LEAF }.validate().is_err());
    }

    #[test]
    fn a_large_intensity_hides_no_storm_either() {
        let limits = Limits { intensity: 1000, period: Duration::from_secs(2000), backoff: Backoff::DEFAULT };
        assert!(limits.validate().is_err());
    }

    proptest! {
        /// A child that dies at once every time always trips valid limits, whatever the jitter.
        #[test]
        fn a_storm_trips_valid_limits(
            intensity in 1u32..12, period_ms in 100u64..60_000, first_ms in 1u64..500,
            max_ms in 1u64..30_000, units in prop::collection::vec(0.0f64..=1.0, 64)
        ) {
            let backoff = Backoff { first: Duration::from_millis(first_ms), max: Duration::from_millis(max_ms.max(first_ms)) };
            let limits = Limits { intensity, period: Duration::from_millis(period_ms), backoff };
            prop_assume!(limits.validate().is_ok());
            let mut window = RestartWindow::new(limits);
            let (mut now, mut tripped) = (Duration::ZERO, false);
            for attempt in 0..=intensity {
                tripped = window.record(now);
                now += backoff.delay(attempt, units[attempt as usize]);
            }
            prop_assert!(tripped);
        }

        /// The window never trips while at most `intensity` restarts lie within any period.
        #[test]
        fn slow_failures_never_trip(intensity in 1u32..10, period_ms in 10u64..10_000, rounds in 1usize..200) {
            let limits = Limits { intensity, period: Duration::from_millis(period_ms), backoff: Backoff::DEFAULT };
            let mut window = RestartWindow::new(limits);
            let step = Duration::from_millis(period_ms) / intensity + Duration::from_millis(1);
            let mut now = Duration::ZERO;
            for _ in 0..rounds {
                prop_assert!(!window.record(now));
                now += step;
            }
        }

        #[test]
        fn delays_stay_within_bounds(attempt in 0u32..200, unit in 0.0f64..=1.0) {
            let delay = Backoff::DEFAULT.delay(attempt, unit);
            prop_assert!(delay >= Duration::from_millis(80) && delay <= Duration::from_secs(36));
        }
    }
}
