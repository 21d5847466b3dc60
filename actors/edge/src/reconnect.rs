//! Retry delays of an edge, reported to its link. The caller does the waiting.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use orchestrator_supervise::{Backoff, LinkReporter};

/// Longest delay between two attempts of any edge of this process, in milliseconds (`links.retry_max_ms`).
static RETRY_MAX_MS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Limits the delay between two attempts of every edge in this process to `max`, before jitter. Edges with a shorter maximum keep it.
pub fn set_retry_max(max: Duration) {
    RETRY_MAX_MS.store(u64::try_from(max.as_millis()).unwrap_or(u64::MAX), Relaxed);
}

/// Returns `backoff` limited by [`set_retry_max`], for delays outside of [`Reconnect`].
pub fn cap_backoff(backoff: Backoff) -> Backoff {
    let max = Duration::from_millis(RETRY_MAX_MS.load(Relaxed));
    Backoff { first: backoff.first.min(max), max: backoff.max.min(max) }
}

/// Consecutive failures of an edge, and its link.
///
/// The delay grows until a message of the peer is processed ([`Reconnect::succeeded`]). A peer that accepts connections and drops them is
/// therefore retried less and less often.
#[derive(Debug)]
pub struct Reconnect {
    link: LinkReporter,
    backoff: Backoff,
    failures: u32,
    unreported: u32,
    connected_at: Option<Instant>,
}

impl Reconnect {
    /// Creates retry delays by `backoff`, reported to `link`.
    pub fn new(link: LinkReporter, backoff: Backoff) -> Self {
        Self { link, backoff, failures: 0, unreported: 0, connected_at: None }
    }

    /// Does not report the first `failures` consecutive failures, for example of a short lock.
    #[must_use]
    pub fn report_after_failures(self, failures: u32) -> Self {
        Self { unreported: failures, ..self }
    }

    /// Reports the link as up. Delays keep growing until [`Reconnect::succeeded`], unless the connection lasts longer than the longest
    /// delay.
    pub fn connected(&mut self) {
        self.connected_at.get_or_insert_with(Instant::now);
        self.link.up();
    }

    /// Reports the link as up and resets the delays, after a message of the peer was processed.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.connected();
    }

    /// Reports a failed attempt or a lost connection; `reason` says what to do. Returns the delay before
    /// the next attempt: it doubles with each failure up to the edge's maximum, with a jitter of 20 %.
    /// A processed message and a long connection reset it.
    pub fn failed(&mut self, reason: impl AsRef<str>) -> Duration {
        let backoff = cap_backoff(self.backoff);
        // The end of a long connection starts with short delays again.
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

    /// Resets the delays, when the peer is probably back.
    pub fn reset_backoff(&mut self) {
        self.failures = 0;
    }

    /// Returns true if the link is up.
    pub fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// Reports a peer that is connected but not ready, as a link that is down; `reason` says what is missing and what to do. The next check
    /// is after `retry_in`.
    pub fn not_ready(&mut self, reason: impl AsRef<str>, retry_in: Duration) {
        self.link.down(reason, retry_in);
    }
}
