//! State of an edge's link: failures, the delay before the next attempt, and the wait for it.

use std::time::{Duration, Instant};

use orchestrator_observe::{LinkFailure, LinkReporter, LinkRequest};
use orchestrator_supervise::{StartCx, StopToken, block_on};
use tokio::time::sleep;

use crate::retry_policy::{Retries, RetryPolicy};

/// Consecutive failures that are not reported if they are expected.
const EXPECTED: u32 = 3;

/// Time that the answer to a long request may take.
const LONG: Duration = Duration::from_secs(3_600);

/// Consecutive failures of an edge, and its link.
///
/// The delay grows until a message of the peer is processed ([`LinkState::succeeded`]). A peer that accepts
/// connections and drops them is therefore retried less and less often.
#[derive(Debug)]
pub struct LinkState {
    link: LinkReporter,
    retries: Retries,
    expects_failures: bool,
    /// True for a file or socket of this machine, which gets no requests.
    is_local: bool,
    stop: StopToken,
}

impl LinkState {
    /// Declares the child's connection to `endpoint`, which must not contain credentials. It is tried again
    /// by `policy`.
    pub fn new(cx: &StartCx, kind: &'static str, endpoint: impl Into<String>, policy: RetryPolicy) -> Self {
        Self { stop: cx.stop.clone(), ..Self::of_link(cx.vitals.link(kind, endpoint), policy) }
    }

    /// Creates the state of `link`, for code that is dropped at a stop: its waits do not end early.
    pub fn of_link(link: LinkReporter, policy: RetryPolicy) -> Self {
        let retries = Retries::new(policy, link.retry_max);
        let is_local = [RetryPolicy::LOCAL, RetryPolicy::LOCAL_LOCK].contains(&policy);
        Self { link, retries, expects_failures: false, is_local, stop: StopToken::new() }
    }

    /// For code that reports only requests.
    pub fn reporter(&self) -> LinkReporter {
        self.link.clone()
    }

    /// Does not report the first [`EXPECTED`] consecutive failures: of a lock that another process holds for
    /// a moment, or of a file that is being created.
    #[must_use]
    pub fn expecting_failures(self) -> Self {
        Self { expects_failures: true, ..self }
    }

    /// Reports the link as up. Delays keep growing until [`LinkState::succeeded`], unless the connection
    /// lasts longer than the longest delay.
    pub fn connected(&self) {
        self.retries.connected();
        self.link.up();
    }

    /// Reports the link as up and resets the delays, after a message of the peer was processed.
    pub fn succeeded(&self) {
        self.retries.reset();
        self.connected();
    }

    /// Reports a request to the peer until it is dropped, see [`LinkReporter::request`]. None for a file or
    /// socket of this machine.
    pub fn request(&self) -> Option<LinkRequest> {
        (!self.is_local).then(|| self.link.request())
    }

    /// Reports a request as [`LinkState::request`] does, which may take long: the peer shows as awaited, but
    /// not as silent.
    pub fn long_request(&self) -> Option<LinkRequest> {
        (!self.is_local).then(|| self.link.request_within(LONG))
    }

    /// Reports a failed attempt or a lost connection. Returns the delay before the next attempt, for a caller
    /// that works meanwhile.
    pub fn failed(&self, failure: impl Into<LinkFailure>) -> Duration {
        self.report(failure.into(), self.expects_failures)
    }

    /// Does the same as [`LinkState::failed`] after a conflict with other users of the peer: the first
    /// [`EXPECTED`] are not reported.
    pub fn conflicted(&self, failure: impl Into<LinkFailure>) -> Duration {
        self.report(failure.into(), true)
    }

    fn report(&self, failure: LinkFailure, is_expected: bool) -> Duration {
        let delay = self.retries.failed();
        // Some drivers report an answer such as a refused connection only after their own time-out.
        if failure.is_answer() {
            self.link.answered();
        }
        if !is_expected || self.retries.failures() > EXPECTED {
            self.link.down(failure, delay);
        }
        delay
    }

    /// Reports a failure as [`LinkState::failed`] and waits for the next attempt. Returns false if the child
    /// is stopped meanwhile.
    pub async fn retry(&self, failure: impl Into<LinkFailure>) -> bool {
        let delay = self.failed(failure);
        self.wait(delay).await
    }

    /// Does the same as [`LinkState::retry`] on a thread without a runtime.
    pub fn retry_blocking(&self, failure: impl Into<LinkFailure>) -> bool {
        self.wait_blocking(self.failed(failure))
    }

    /// Waits for `span`. Returns false if the child is stopped meanwhile.
    pub async fn wait(&self, span: Duration) -> bool {
        self.stop.run_until_cancelled(sleep(span)).await.is_some()
    }

    /// Waits until the child is stopped.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Does the same as [`LinkState::wait`] on a thread without a runtime.
    pub fn wait_blocking(&self, span: Duration) -> bool {
        block_on(Some(Instant::now() + span), self.stop.cancelled()).is_none()
    }

    /// Returns true if the link is up.
    pub fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// Reports a connection that is not needed at present.
    pub fn idle(&self) {
        self.link.idle();
    }

    /// Reports a connection that has not been tried yet.
    pub fn clear(&self) {
        self.link.connecting(0);
    }

    /// Reports a peer that is connected but not ready, as a link that is down. The next check is after
    /// `retry_in`.
    pub fn not_ready(&self, failure: impl Into<LinkFailure>, retry_in: Duration) {
        self.link.answered();
        self.link.down(failure, retry_in);
    }
}
