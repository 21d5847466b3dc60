//! Delay before a failed request is retried: a quarter of the outage so far, so that short outages
//! end soon, and at most 1 s.

use std::time::Duration;

use orchestrator_observe::LinkFailure;
use tokio::time::Instant;

use crate::service::AFTER_ABORT;

const FIRST: Duration = Duration::from_millis(50);
/// Refused credentials need an operator.
const DENIED: Duration = Duration::from_secs(15);
const MAX: Duration = Duration::from_secs(1);

/// An outage as seen by one rule.
#[derive(Debug)]
pub(super) struct Outage {
    /// Factor of the delays after failures.
    factor: f64,
    /// Longest delay, as configured for all links.
    retry_max: Duration,
    since: Option<Instant>,
    until: Option<Instant>,
    failure: Option<LinkFailure>,
}

impl Outage {
    /// The delays after failures are multiplied by `factor`.
    pub(super) fn new(factor: f64, retry_max: Duration) -> Self {
        Self { factor, retry_max, since: None, until: None, failure: None }
    }

    /// Records a failure.
    pub(super) fn failed(&mut self, failure: impl Into<LinkFailure>, now: Instant) {
        let so_far = now - *self.since.get_or_insert(now);
        self.wait((so_far / 4).clamp(FIRST.mul_f64(self.factor), MAX.mul_f64(self.factor)), now);
        self.failure = Some(failure.into().sanitized());
    }

    /// Records refused credentials.
    pub(super) fn denied(&mut self, failure: impl Into<LinkFailure>, now: Instant) {
        self.since.get_or_insert(now);
        self.wait(DENIED, now);
        self.failure = Some(failure.into().sanitized());
    }

    /// Records a lost race with another agent; the delay grows with repetition.
    pub(super) fn conflicted(&mut self, now: Instant) {
        let so_far = now - *self.since.get_or_insert(now);
        // All competitors retry at once; a random delay separates them.
        let span = (so_far / 4).clamp(Duration::from_millis(4), Duration::from_millis(100));
        self.until = Some(now + span.mul_f64(fastrand::f64()));
    }

    /// Records a claim whose transaction the server aborted, because another write came first.
    pub(super) fn aborted(&mut self, now: Instant) {
        self.since.get_or_insert(now);
        self.until = Some(now + AFTER_ABORT.spread());
    }

    fn wait(&mut self, span: Duration, now: Instant) {
        self.until = Some(now + span.min(self.retry_max).mul_f64(0.8 + 0.4 * fastrand::f64()));
    }

    /// Ends the outage.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.factor, self.retry_max);
    }

    /// None if the delay is over.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    pub(super) fn failure(&self) -> Option<&LinkFailure> {
        self.failure.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_limited_and_escaped() {
        let mut outage = Outage::new(1.0, Duration::MAX);
        let failed = |outage: &mut Outage, text: String| outage.failed(text, Instant::now());
        let denied = |outage: &mut Outage, text: String| outage.denied(text, Instant::now());
        for tell in [failed, denied] {
            tell(&mut outage, format!("\u{1b}[2J{}", "x".repeat(3_000_000)));
            let reason = &outage.failure().expect("a reason").reason;
            assert!(reason.len() <= 512 && reason.starts_with("\\u{1b}[2Jx"), "{}", reason.len());
        }
    }

    #[test]
    fn delays_grow_with_the_outage_up_to_the_maximum() {
        let begun = Instant::now();
        let mut outage = Outage::new(1.0, Duration::MAX);
        let (mut now, mut tries) = (begun, 0);
        while now < begun + Duration::from_secs(3_600) {
            outage.failed("away".to_owned(), now);
            let until = outage.until(now).expect("it waits");
            assert!(until - now >= FIRST.mul_f64(0.8) && until - now <= MAX.mul_f64(1.2));
            now = until;
            tries += 1;
        }
        assert!((3_000..5_000).contains(&tries), "{tries} tries in an hour");
        outage.reset();
        assert_eq!((outage.until(now), outage.failure()), (None, None));
    }
}
