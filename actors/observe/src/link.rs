//! State of a child's connection to a peer outside the process. A peer that is down is a state of the child,
//! not an exit.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    clock::{now_ms, steady_ms, wall_ms},
    event::{EventKind, EventLog},
    link_failure::{FailureKind, LinkFailure},
    link_refusals::{LinkRefusals, Refusal},
    link_requests::{Requests, UNANSWERED},
};

/// State of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// Closed because it is not needed at present, for example between two scans.
    Idle,
    /// Not connected yet.
    Connecting {
        /// Attempts so far.
        attempt: u32,
    },
    /// Connected.
    Up {
        /// Start of this state, milliseconds since 1970.
        since_ms: u64,
    },
    /// Lost or refused.
    Down {
        /// Start of this state, milliseconds since 1970.
        since_ms: u64,
        /// Reason, and what helps.
        failure: LinkFailure,
        /// Time of the next attempt.
        retry_at: Instant,
    },
    /// A request has had no answer for [`UNANSWERED`], whatever the state was before.
    Unanswered {
        /// Start of the request, milliseconds since 1970.
        since_ms: u64,
        /// Time without an answer, and the reason of the last failure.
        reason: String,
        /// Time of the next attempt, after a failure.
        retry_at: Option<Instant>,
    },
}

/// Open request to a peer; dropping it ends it.
#[derive(Debug)]
pub struct LinkRequest {
    entry: Arc<LinkEntry>,
    number: u64,
}

impl LinkRequest {
    /// Starts the time of the request again, after a sign of life of the peer.
    pub fn renew(&self) {
        if let Some((since, _)) = self.entry.requests.lock().open.get_mut(&self.number) {
            *since = Instant::now();
        }
    }
}

impl Drop for LinkRequest {
    fn drop(&mut self) {
        self.entry.requests.lock().end(self.number, Instant::now());
    }
}

#[derive(Debug)]
pub(crate) struct LinkEntry {
    pub(crate) kind: &'static str,
    pub(crate) endpoint: String,
    /// State, with times by the steady clock.
    state: Mutex<Link>,
    requests: Mutex<Requests>,
    /// True once the event of the present silence is recorded.
    silence_reported: AtomicBool,
    /// Last reason logged, until the link is up: the same reason after another attempt is not logged again.
    reported: Mutex<Option<String>>,
    refusals: LinkRefusals,
}

impl LinkEntry {
    pub(crate) fn new(kind: &'static str, endpoint: String) -> Arc<Self> {
        let state = Mutex::new(Link::Connecting { attempt: 0 });
        let (requests, silence_reported) = (Mutex::default(), AtomicBool::new(false));
        let (reported, refusals) = (Mutex::new(None), LinkRefusals::default());
        Arc::new(Self { kind, endpoint, state, requests, silence_reported, reported, refusals })
    }

    /// State at present. It is down while the peer refuses requests, and unanswered as long as an answer is
    /// overdue.
    pub(crate) fn state(&self) -> Link {
        let (mut state, now) = (self.state.lock().clone(), Instant::now());
        if !matches!(state, Link::Down { .. })
            && let Some(Refusal { since_ms, failure, retry_at }) = self.refusals.first()
        {
            state = Link::Down { since_ms, failure, retry_at };
        }
        let is_blocked = matches!(&state, Link::Down { failure, .. } if failure.kind == FailureKind::Blocked);
        let unanswered = self.requests.lock().unanswered_since(now).filter(|_| !is_blocked);
        let Some(since) = unanswered else { return at_wall_clock(state) };
        let span = now.duration_since(since);
        let since_ms = now_ms().saturating_sub(span.as_millis() as u64);
        let mut reason = format!("has not answered for {} s", span.as_secs());
        let mut retry_at = None;
        if let Link::Down { failure, retry_at: at, .. } = state {
            reason = format!("{reason}; {}", failure.reason);
            retry_at = Some(at);
        }
        Link::Unanswered { since_ms, reason, retry_at }
    }

    /// Time for which the oldest request awaits an answer.
    pub(crate) fn waits_for(&self) -> Option<Duration> {
        self.requests.lock().waits_since().map(|since| since.elapsed())
    }

    /// Event of a silence that began or ended since the last call. `state` is the present state.
    pub(crate) fn silence_event(&self, state: &Link) -> Option<EventKind> {
        let is_silent = matches!(state, Link::Unanswered { .. });
        if self.silence_reported.swap(is_silent, Relaxed) == is_silent {
            return None;
        }
        match state {
            Link::Unanswered { reason, .. } => Some(EventKind::LinkUnanswered { reason: reason.clone() }),
            Link::Up { .. } => Some(EventKind::LinkUp),
            _ => None,
        }
    }

    /// Resets the state at the end of an incarnation, which closes its connection and gives up its requests.
    pub(crate) fn reset(&self) {
        let mut requests = self.requests.lock();
        requests.open.clear();
        requests.watches.clear();
        requests.forget();
        drop(requests);
        self.refusals.clear();
        let mut state = self.state.lock();
        if matches!(*state, Link::Up { .. }) {
            *state = Link::Connecting { attempt: 0 };
        }
    }
}

/// Converts the start of a state from the steady clock to the wall clock.
fn at_wall_clock(mut state: Link) -> Link {
    if let Link::Up { since_ms } | Link::Down { since_ms, .. } = &mut state {
        *since_ms = wall_ms(*since_ms);
    }
    state
}

/// Handle for reporting the state of a connection. Clones share the state.
#[derive(Debug, Clone)]
pub struct LinkReporter {
    pub(crate) entry: Arc<LinkEntry>,
    pub(crate) path: Arc<str>,
    pub(crate) events: EventLog,
    /// Longest delay between two attempts, from the root's specification.
    pub retry_max: Duration,
}

impl LinkReporter {
    /// Reports that the connection is up.
    pub fn up(&self) {
        self.answered();
        let mut state = self.entry.state.lock();
        if !matches!(*state, Link::Up { .. }) {
            *state = Link::Up { since_ms: steady_ms() };
            drop(state);
            *self.entry.reported.lock() = None;
            self.entry.silence_reported.store(false, Relaxed);
            tracing::info!(
                path = &*self.path,
                kind = self.entry.kind,
                endpoint = self.entry.endpoint,
                "link up"
            );
            self.events.push(&self.path, EventKind::LinkUp);
        }
    }

    /// Reports that the connection is down, and retried after `retry_in`. Texts of `failure` are escaped and
    /// limited by [`sanitize`](orchestrator_text::sanitize). A repeated reason is not logged again.
    pub fn down(&self, failure: impl Into<LinkFailure>, retry_in: Duration) {
        let (failure, retry_at) = (failure.into().sanitized(), Instant::now() + retry_in);
        let LinkFailure { reason, help, .. } = failure.clone();
        self.entry.requests.lock().fail();
        let mut state = self.entry.state.lock();
        let since_ms = match &*state {
            Link::Down { since_ms, .. } => *since_ms,
            _ => steady_ms(),
        };
        *state = Link::Down { since_ms, failure, retry_at };
        drop(state);
        if self.entry.reported.lock().replace(reason.clone()).as_ref() != Some(&reason) {
            tracing::warn!(path = &*self.path, kind = self.entry.kind, reason, help, "link down");
            self.events.push(&self.path, EventKind::LinkDown { reason });
        }
    }

    /// Reports that the peer answers requests of the kind `what` with an error, though it may answer others:
    /// the link is down for `failure`, until [`LinkReporter::accepted`]. The next one is after `retry_in`.
    /// Only the first refusal is logged, since reasons may name what was refused.
    pub fn refused(&self, what: &str, failure: impl Into<LinkFailure>, retry_in: Duration) {
        let (failure, retry_at) = (failure.into().sanitized(), Instant::now() + retry_in);
        let LinkFailure { reason, help, .. } = failure.clone();
        if self.entry.refusals.add(what, failure, retry_at) {
            tracing::warn!(path = &*self.path, kind = self.entry.kind, reason, help, "link refuses requests");
            self.events.push(&self.path, EventKind::LinkDown { reason });
        }
    }

    /// Reports that the peer accepts requests of the kind `what`. Cheap enough for every request.
    pub fn accepted(&self, what: &str) {
        if self.entry.refusals.remove(what) {
            tracing::info!(path = &*self.path, kind = self.entry.kind, what, "link accepts requests again");
            self.events.push(&self.path, EventKind::LinkUp);
        }
    }

    /// Reports that the connection is closed because it is not needed at present.
    pub fn idle(&self) {
        self.answered();
        *self.entry.state.lock() = Link::Idle;
    }

    /// Reports an attempt in progress.
    pub fn connecting(&self, attempt: u32) {
        self.answered();
        *self.entry.state.lock() = Link::Connecting { attempt };
    }

    /// Reports an answer of the peer, after which earlier attempts without an answer do not count.
    pub fn answered(&self) {
        self.entry.requests.lock().forget();
    }

    /// Reports a request to the peer, such as a connection attempt, a query or a message to be confirmed,
    /// until it is dropped. A link with a request older than [`UNANSWERED`] is unanswered. Attempts that fail
    /// after a second or more count as one request until another one succeeds, or is refused within a second.
    pub fn request(&self) -> LinkRequest {
        self.request_within(UNANSWERED)
    }

    /// Does the same for a peer that may wait for up to `most` before it answers.
    pub fn request_within(&self, most: Duration) -> LinkRequest {
        let number = self.entry.requests.lock().begin(most, Instant::now());
        LinkRequest { entry: self.entry.clone(), number }
    }

    /// Reports the wait for a sign of life of the peer, such as a heartbeat, within `most`;
    /// [`LinkRequest::renew`] starts it again.
    pub fn watch_within(&self, most: Duration) -> LinkRequest {
        let watch = self.request_within(most);
        self.entry.requests.lock().watches.insert(watch.number);
        watch
    }

    /// True, too, if the peer does not answer.
    pub fn is_up(&self) -> bool {
        matches!(*self.entry.state.lock(), Link::Up { .. })
    }

    /// True if the last attempt has failed, or the connection was lost.
    pub fn is_down(&self) -> bool {
        matches!(*self.entry.state.lock(), Link::Down { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_peer_that_refuses_one_kind_of_requests_is_down_until_it_accepts_them() {
        let link = LinkReporter {
            entry: LinkEntry::new("redis", "r:1".to_owned()),
            path: "o/redis".into(),
            events: EventLog::default(),
            retry_max: SECOND,
        };
        let reason = || match link.entry.state() {
            Link::Down { failure, .. } => Some(failure.reason),
            _ => None,
        };
        link.up();
        for said in ["OOM", "OOM", "READONLY"] {
            link.refused("publish", said, SECOND);
            link.refused("read", "NOPERM", SECOND);
            // Other requests succeed.
            link.up();
            assert_eq!((reason().as_deref(), link.is_up()), (Some(said), true));
        }
        assert_eq!(link.events.since(0).len(), 3, "not one for each refusal");
        link.down("away", SECOND);
        assert_eq!(reason().as_deref(), Some("away"));
        link.up();
        link.accepted("publish");
        assert_eq!(reason().as_deref(), Some("NOPERM"));
        link.accepted("read");
        assert_eq!(reason(), None);
        link.refused("read", "NOPERM", SECOND);
        link.entry.reset();
        assert_eq!(reason(), None, "another incarnation");
    }
}
