//! How long to wait while the server is away: a quarter of the outage so far, so that short ones are over soon, and never so long that
//! the next row waits when it is back.

use std::time::Duration;

use orchestrator_edge::cap_backoff;
use orchestrator_supervise::{Backoff, sanitize};
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(50);
/// Whoever is denied needs people.
const DENIED: Duration = Duration::from_secs(15);
const MAX: Duration = Duration::from_secs(1);

/// An outage, as one rule sees it.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
    until: Option<Instant>,
    reason: Option<String>,
}

impl Outage {
    /// It failed.
    pub(super) fn failed(&mut self, reason: String, now: Instant) {
        let so_far = now - *self.since.get_or_insert(now);
        let Backoff { first, max } = cap_backoff(Backoff { first: FIRST, max: MAX });
        self.wait((so_far / 4).clamp(first, max), now);
        self.reason = Some(sanitize(reason));
    }

    /// We are not let in.
    pub(super) fn denied(&mut self, reason: String, now: Instant) {
        self.since.get_or_insert(now);
        self.wait(at_most(DENIED), now);
        self.reason = Some(sanitize(reason));
    }

    /// Somebody was faster: the more often, the longer.
    pub(super) fn crossed(&mut self, now: Instant) {
        let so_far = now - *self.since.get_or_insert(now);
        // Everybody else is as fast again, too: whoever waits a random time first does not meet them all.
        let span = (so_far / 4).clamp(Duration::from_millis(4), Duration::from_millis(100));
        self.until = Some(now + span.mul_f64(fastrand::f64()));
    }

    fn wait(&mut self, span: Duration, now: Instant) {
        self.until = Some(now + span.mul_f64(0.8 + 0.4 * fastrand::f64()));
    }

    /// It is over.
    pub(super) fn over(&mut self) {
        *self = Self::default();
    }

    /// Until when to wait, if that is still to come.
    pub(super) fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| *until > now)
    }

    /// Why.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

/// `span` within the limit of all delays before a peer is tried again.
pub(super) fn at_most(span: Duration) -> Duration {
    cap_backoff(Backoff { first: span, max: span }).max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_limited_and_escaped() {
        let mut outage = Outage::default();
        for tell in [Outage::failed, Outage::denied] {
            tell(&mut outage, format!("\u{1b}[2J{}", "x".repeat(3_000_000)), Instant::now());
            let reason = outage.reason().expect("a reason");
            assert!(reason.len() <= 512 && reason.starts_with("\\u{1b}[2Jx"), "{}", reason.len());
        }
    }

    #[test]
    fn waits_grow_with_the_outage_and_stay_short_enough() {
        let begun = Instant::now();
        let mut outage = Outage::default();
        let (mut now, mut tries) = (begun, 0);
        while now < begun + Duration::from_secs(3_600) {
            outage.failed("away".to_owned(), now);
            let until = outage.until(now).expect("it waits");
            assert!(until - now >= FIRST.mul_f64(0.8) && until - now <= MAX.mul_f64(1.2));
            now = until;
            tries += 1;
        }
        assert!((3_000..5_000).contains(&tries), "{tries} tries in an hour");
        outage.over();
        assert_eq!((outage.until(now), outage.reason()), (None, None));
    }
}
