//! Tries with growing delays, reported to the edge's link. The caller waits.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use orchestrator_supervise::{Backoff, LinkReporter};

/// Longest delay between two tries of any edge of this process, milliseconds: `links.retry_max_ms`.
static RETRY_MAX_MS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Limits the delay between two tries of every edge in this process to `max`, before jitter. Edges with a shorter maximum keep theirs.
pub fn set_retry_max(max: Duration) {
    RETRY_MAX_MS.store(u64::try_from(max.as_millis()).unwrap_or(u64::MAX), Relaxed);
}

/// `backoff` within the limit set by [`set_retry_max`], for waits that are not a [`Reconnect`]'s.
pub fn cap_backoff(backoff: Backoff) -> Backoff {
    let max = Duration::from_millis(RETRY_MAX_MS.load(Relaxed));
    Backoff { first: backoff.first.min(max), max: backoff.max.min(max) }
}

/// Failures in a row, and the link that shows them.
///
/// The delay grows until the peer makes progress ([`Reconnect::succeeded`]), that is, until a message of it was processed. A peer that
/// accepts connections and drops them is tried ever less often.
#[derive(Debug)]
pub struct Reconnect {
    link: LinkReporter,
    backoff: Backoff,
    failures: u32,
    unreported: u32,
    connected_at: Option<Instant>,
}

impl Reconnect {
    /// Tries spaced by `backoff`, reported to `link`.
    pub fn new(link: LinkReporter, backoff: Backoff) -> Self {
        Self { link, backoff, failures: 0, unreported: 0, connected_at: None }
    }

    /// Keeps the first `failures` in a row to itself: a moment's lock is no outage.
    #[must_use]
    pub fn report_after_failures(self, failures: u32) -> Self {
        Self { unreported: failures, ..self }
    }

    /// Reports the link as up: the connection stands. The delays go on growing until [`Reconnect::succeeded`], unless the connection
    /// outlives the longest delay.
    pub fn connected(&mut self) {
        self.connected_at.get_or_insert_with(Instant::now);
        self.link.up();
    }

    /// Reports the link as up and begins the delays anew: a message of the peer was processed.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.connected();
    }

    /// Reports a failed try or a lost connection; `reason` says what to do. Returns the delay before the next try.
    pub fn failed(&mut self, reason: impl AsRef<str>) -> Duration {
        let backoff = cap_backoff(self.backoff);
        // An idle connection is no storm, however it ends.
        if self.connected_at.take().is_some_and(|since| since.elapsed() >= backoff.max) {
            self.failures = 0;
        }
        let delay = backoff.delay(self.failures, fastrand::f64());
        self.failures = self.failures.saturating_add(1);
        if self.failures > self.unreported {
            self.link.down(reason, delay);
        }
        delay
    }

    /// Begins the delays anew: there is reason to think that the peer is back.
    pub fn reset_backoff(&mut self) {
        self.failures = 0;
    }

    /// Tells whether the peer was there when it was last heard of.
    pub fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// Reports that the peer is there, but not all of what is needed of it; `reason` says what is missing and what to do. It is looked at
    /// again after `again`.
    pub fn not_ready(&mut self, reason: impl AsRef<str>, again: Duration) {
        self.link.down(reason, again);
    }
}
