//! Delays between attempts, by the kind of peer.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use orchestrator_supervise::Backoff;
use parking_lot::Mutex;

/// Delays between attempts: they double with each failure, with a jitter of 20 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy(Backoff);

impl RetryPolicy {
    /// Lock that another process holds for a transaction: 5 to 500 ms.
    pub const LOCAL_LOCK: Self = Self::exception(Duration::from_millis(5), Duration::from_millis(500));
    /// File or socket of this machine: 50 ms to 2.5 s.
    pub const LOCAL: Self = Self::exception(Duration::from_millis(50), Duration::from_millis(2_500));
    /// Server: 50 ms to 2 s. After any outage, it is used again within 3 s of its return.
    pub const REMOTE: Self = Self::exception(Duration::from_millis(50), Duration::from_secs(2));

    /// Creates a policy from its first and its longest delay, for an edge that no named policy fits. The
    /// comment of the constant says why.
    pub const fn exception(first: Duration, longest: Duration) -> Self {
        Self(Backoff { first, max: longest })
    }

    /// Random delay from the first to the longest one, for competitors that would collide again after equal
    /// delays.
    pub fn spread(self) -> Duration {
        let Backoff { first, max } = self.0;
        first + max.saturating_sub(first).mul_f64(fastrand::f64())
    }

    /// Delay after `failures` consecutive failures, from 1.
    pub fn delay(self, failures: u32) -> Duration {
        self.0.delay(failures.saturating_sub(1), fastrand::f64())
    }
}

/// Consecutive failures of one operation. A processed message and a long connection reset them.
#[derive(Debug)]
pub struct Retries {
    policy: RetryPolicy,
    failures: AtomicU32,
    connected_at: Mutex<Option<Instant>>,
}

impl Retries {
    /// Counts failures, with the delays of `policy` up to `longest`, before jitter.
    pub fn new(RetryPolicy(Backoff { first, max }): RetryPolicy, longest: Duration) -> Self {
        let policy = RetryPolicy::exception(first.min(longest), max.min(longest));
        Self { policy, failures: AtomicU32::new(0), connected_at: Mutex::new(None) }
    }

    /// Records a connection. The delays keep growing, unless it lasts longer than the longest of them.
    pub fn connected(&self) {
        self.connected_at.lock().get_or_insert_with(Instant::now);
    }

    /// Resets the delays.
    pub fn reset(&self) {
        self.failures.store(0, Relaxed);
    }

    /// Records a failure and returns the delay before the next attempt.
    pub fn failed(&self) -> Duration {
        if self.connected_at.lock().take().is_some_and(|since| since.elapsed() >= self.policy.0.max) {
            self.reset();
        }
        self.failures.store(self.failures().saturating_add(1), Relaxed);
        self.policy.delay(self.failures())
    }

    /// Consecutive failures so far.
    pub fn failures(&self) -> u32 {
        self.failures.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_the_limit_until_a_reset_or_the_end_of_a_long_connection() {
        let ms = Duration::from_millis;
        let retries = Retries::new(RetryPolicy::exception(ms(1), ms(1_000)), ms(4));
        let grow = || {
            for most in [1, 2, 4, 4, 4] {
                let (delay, most) = (retries.failed(), ms(most));
                assert!(delay >= most.mul_f64(0.8) && delay <= most.mul_f64(1.2), "{delay:?} for {most:?}");
                // A connection that is lost at once changes nothing.
                retries.connected();
            }
        };
        grow();
        *retries.connected_at.lock() = None;
        retries.reset();
        grow();
        *retries.connected_at.lock() = Instant::now().checked_sub(ms(4));
        grow();
    }
}
