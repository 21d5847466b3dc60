//! Tries with growing delays, told to the edge's link. Keeps no time itself: the caller waits.

use std::time::Duration;

use orchestrator_supervise::{Backoff, LinkReporter};

/// Failures in a row and what the link shows of them.
#[derive(Debug)]
pub struct Reconnect {
    link: LinkReporter,
    backoff: Backoff,
    failures: u32,
    unreported: u32,
}

impl Reconnect {
    /// Tries spaced by `backoff`, reported to `link`.
    pub fn new(link: LinkReporter, backoff: Backoff) -> Self {
        Self { link, backoff, failures: 0, unreported: 0 }
    }

    /// Keeps the first `failures` in a row to itself: a moment's lock is no outage.
    #[must_use]
    pub fn patient(self, failures: u32) -> Self {
        Self { unreported: failures, ..self }
    }

    /// The peer answers: the link is up, the next failure starts from the shortest delay.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.link.up();
    }

    /// A try failed; `reason` says what to do. Gives the delay before the next one.
    pub fn failed(&mut self, reason: impl Into<String>) -> Duration {
        let delay = self.backoff.delay(self.failures, fastrand::f64());
        self.failures = self.failures.saturating_add(1);
        if self.failures > self.unreported {
            self.link.down(reason, delay);
        }
        delay
    }

    /// There is reason to think that the peer is back: if the next try fails all the same, delays grow anew from the shortest.
    pub fn begin_anew(&mut self) {
        self.failures = 0;
    }

    /// Was the peer there when it was last heard of?
    pub fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// The peer is there, but not all of what is needed of it; `reason` says what is missing and what to do. It is looked at
    /// again after `again`.
    pub fn incomplete(&mut self, reason: impl Into<String>, again: Duration) {
        self.link.down(reason, again);
    }
}
