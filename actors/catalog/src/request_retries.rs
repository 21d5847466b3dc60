//! Retries of one request, as deriva makes them (CONTRACT CF15, CE16). Pure.

use std::time::Duration;

/// Number of retries that deriva allows for all reasons together.
pub(crate) const RETRIES_MAX: u32 = 10;
/// Largest `retry_backoff_factor`: deriva waits 120 s at most.
pub(crate) const FACTOR_MAX: f64 = 120.0;
/// Smallest factor: agents need some delay.
const FACTOR_MIN: f64 = 0.2;
/// Time after which a request is not retried any more: its agent renews no lease meanwhile.
const RETRY_TIME: Duration = Duration::from_secs(1);

/// Retries of one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Retries {
    /// Retries after failed attempts to connect.
    pub connect: u32,
    /// Retries of reads that were not answered.
    pub read: u32,
    /// Retries of reads that were answered with one of `statuses`.
    pub status: u32,
    /// Factor of the delays between attempts.
    pub backoff_factor: f64,
    /// Statuses after which a request may succeed later.
    pub statuses: Vec<u16>,
}

/// Reason of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection; nothing was sent.
    Connect,
    /// No answer to a read.
    Read,
    /// A read was answered with one of the listed statuses.
    Status,
}

/// Failed attempts of one request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attempts {
    connect: u32,
    read: u32,
    status: u32,
}

impl Default for Retries {
    /// Without a `session` block requests are not retried; agents poll again.
    fn default() -> Self {
        Self { connect: 0, read: 0, status: 0, backoff_factor: 1.0, statuses: Vec::new() }
    }
}

impl Retries {
    /// Returns true if an answer with `status` means that the request may succeed later.
    pub(crate) fn lists(&self, status: u16) -> bool {
        self.statuses.contains(&status)
    }

    /// Returns the factor of an agent's delays.
    pub(crate) fn agent_factor(&self) -> f64 {
        self.backoff_factor.clamp(FACTOR_MIN, FACTOR_MAX)
    }
}

impl Attempts {
    /// Records a failure. Returns the delay before the next attempt: none before the first retry, then
    /// twice the factor in seconds, doubled with each. None: there is no further attempt. `elapsed` is
    /// the time since the first attempt began.
    pub(crate) fn failed(
        &mut self,
        failure: Failure,
        retries: &Retries,
        elapsed: Duration,
    ) -> Option<Duration> {
        let (count, max) = match failure {
            Failure::Connect => (&mut self.connect, retries.connect),
            Failure::Read => (&mut self.read, retries.read),
            Failure::Status => (&mut self.status, retries.status),
        };
        *count += 1;
        let is_over = *count > max;
        let all = self.connect + self.read + self.status;
        let delay = match all {
            0 | 1 => Duration::ZERO,
            more => Duration::from_secs_f64(retries.backoff_factor * 2f64.powi(more.min(16) as i32 - 1)),
        };
        (!is_over && all <= RETRIES_MAX && elapsed + delay < RETRY_TIME).then_some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn retries_end_with_their_number_and_after_a_second() {
        let retries = |backoff_factor| Retries {
            connect: 1,
            read: 3,
            status: 10,
            backoff_factor,
            ..Retries::default()
        };
        let delays = |failure, factor: f64| {
            let (mut attempts, mut elapsed, mut delays) = (Attempts::default(), Duration::ZERO, Vec::new());
            while let Some(delay) = attempts.failed(failure, &retries(factor), elapsed) {
                elapsed += delay;
                delays.push(delay);
            }
            delays
        };
        assert_eq!(delays(Failure::Connect, 0.1), [ms(0)]);
        assert_eq!(delays(Failure::Read, 0.1), [ms(0), ms(200), ms(400)]);
        assert_eq!(delays(Failure::Read, 1.0), [ms(0)], "two seconds are left to the agent");
        assert_eq!(delays(Failure::Status, 0.0).len(), 10);
        let long = Attempts::default().failed(Failure::Read, &retries(0.0), RETRY_TIME);
        assert_eq!(long, None, "an attempt that took long is not repeated");
        assert_eq!(Attempts::default().failed(Failure::Read, &Retries::default(), Duration::ZERO), None);
    }
}
