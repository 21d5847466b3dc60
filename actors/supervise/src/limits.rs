//! Restart intensity and restart delays. Pure: no clock.

use std::time::Duration;

/// Largest relative change of a delay by jitter, which keeps children that failed together from restarting
/// together.
const JITTER: f64 = 0.2;

/// Delays between attempts: they double from `first` up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay before the first restart after a stable period.
    pub first: Duration,
    /// Longest delay, before jitter.
    pub max: Duration,
}

impl Backoff {
    /// From 100 ms up to 30 s.
    pub const DEFAULT: Backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(30) };

    /// Attempts are counted from 0. `unit` (0 to 1) is a random number for the jitter; 0.5 means none.
    pub fn delay(&self, attempt: u32, unit: f64) -> Duration {
        let doubled = self.first.saturating_mul(1u32.checked_shl(attempt.min(31)).unwrap_or(u32::MAX));
        let factor = 1.0 - JITTER + 2.0 * JITTER * unit.clamp(0.0, 1.0);
        doubled.min(self.max).mul_f64(factor)
    }
}

/// Restart intensity (OTP): a supervisor gives up after more than `intensity` restarts within `period`.
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
    /// 5 restarts in 30 s, for a supervisor of workers.
    pub const LEAF: Limits =
        Limits { intensity: 5, period: Duration::from_secs(30), backoff: Backoff::DEFAULT };
    /// 3 restarts in 60 s, for the root.
    pub const ROOT: Limits =
        Limits { intensity: 3, period: Duration::from_secs(60), backoff: Backoff::DEFAULT };

    /// max(5, count/4) restarts in 30 s, for a pool of `count` workers.
    pub fn pool(count: usize) -> Limits {
        let quarter = u32::try_from(count / 4).unwrap_or(u32::MAX);
        Limits { intensity: quarter.max(5), ..Limits::LEAF }
    }

    /// Checks that a child that always fails exceeds the intensity. With long delays, its restarts would
    /// never all lie within one period.
    ///
    /// # Errors
    /// The delays of `intensity` restarts add up to the period or more.
    pub fn validate(&self) -> Result<(), String> {
        let growing = self.intensity.min(32);
        let rest = self.backoff.delay(u32::MAX, 1.0).saturating_mul(self.intensity - growing);
        let longest =
            (0..growing).fold(rest, |sum, attempt| sum.saturating_add(self.backoff.delay(attempt, 1.0)));
        if longest >= self.period && self.intensity > 0 {
            return Err(format!(
                "the first {} restart delays add up to {longest:?}, so that a child that always fails never exceeds the intensity in the period of {:?}: raise period or lower intensity or backoff",
                self.intensity, self.period
            ));
        }
        Ok(())
    }
}

/// Sliding window of restarts of one supervisor. Times are durations since any fixed start.
#[derive(Debug)]
pub struct RestartWindow {
    limits: Limits,
    restarts: std::collections::VecDeque<Duration>,
}

impl RestartWindow {
    /// Creates an empty window.
    pub fn new(limits: Limits) -> Self {
        Self { limits, restarts: std::collections::VecDeque::new() }
    }

    /// Records a restart at `now`; returns whether there are more than `intensity` within the last period.
    #[must_use]
    pub fn record(&mut self, now: Duration) -> bool {
        self.expire(now);
        self.restarts.push_back(now);
        self.restarts.len() > self.limits.intensity as usize
    }

    /// Returns the restarts left at `now`.
    pub fn left(&mut self, now: Duration) -> u32 {
        self.expire(now);
        self.limits.intensity.saturating_sub(u32::try_from(self.restarts.len()).unwrap_or(u32::MAX))
    }

    /// Time at which the oldest restart leaves the window.
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
    fn backoff_longer_than_the_period_is_refused() {
        let slow = Backoff { first: Duration::from_secs(10), max: Duration::from_secs(30) };
        assert!(Limits { backoff: slow, ..Limits::LEAF }.validate().is_err());
    }

    #[test]
    fn backoff_of_a_large_intensity_is_refused() {
        let limits = Limits { intensity: 1000, period: Duration::from_secs(2000), backoff: Backoff::DEFAULT };
        assert!(limits.validate().is_err());
    }

    proptest! {
        /// A child that always fails at once exceeds valid limits, whatever the jitter.
        #[test]
        fn a_child_that_always_fails_exceeds_valid_limits(
            intensity in 1u32..12, period_ms in 100u64..60_000, first_ms in 1u64..500,
            max_ms in 1u64..30_000, units in prop::collection::vec(0.0f64..=1.0, 64)
        ) {
            let backoff = Backoff { first: Duration::from_millis(first_ms), max: Duration::from_millis(max_ms.max(first_ms)) };
            let limits = Limits { intensity, period: Duration::from_millis(period_ms), backoff };
            prop_assume!(limits.validate().is_ok());
            let mut window = RestartWindow::new(limits);
            let (mut now, mut exceeded) = (Duration::ZERO, false);
            for attempt in 0..=intensity {
                exceeded = window.record(now);
                now += backoff.delay(attempt, units[attempt as usize]);
            }
            prop_assert!(exceeded);
        }

        /// At most `intensity` restarts within any period never exceed the limits.
        #[test]
        fn slow_failures_never_exceed_the_limits(intensity in 1u32..10, period_ms in 10u64..10_000, rounds in 1usize..200) {
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
