//! State of an edge's connection. A broker that is away is a state of its edge, never a crash.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    event::{EventKind, EventLog, now_ms},
    text::sanitize,
};

/// Where an edge stands with its peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// Not wanted at present, and closed: a source between two scans.
    Idle,
    /// Not connected yet.
    Connecting {
        /// Tries so far.
        attempt: u32,
    },
    /// Connected.
    Up {
        /// Since when, milliseconds since 1970.
        since_ms: u64,
    },
    /// Lost, or refused.
    Down {
        /// Since when, milliseconds since 1970.
        since_ms: u64,
        /// Why; says what to do.
        reason: String,
        /// When it is tried again.
        retry_at: Instant,
    },
}

#[derive(Debug)]
pub(crate) struct LinkEntry {
    pub(crate) kind: &'static str,
    pub(crate) endpoint: String,
    pub(crate) state: Mutex<Link>,
    /// The reason last reported, until the link is up: tries in between do not make it news again.
    reported: Mutex<Option<String>>,
}

impl LinkEntry {
    pub(crate) fn new(kind: &'static str, endpoint: String) -> Arc<Self> {
        let state = Mutex::new(Link::Connecting { attempt: 0 });
        Arc::new(Self { kind, endpoint, state, reported: Mutex::new(None) })
    }

    /// The incarnation that held the connection is gone, and the connection with it.
    pub(crate) fn abandon(&self) {
        let mut state = self.state.lock();
        if matches!(*state, Link::Up { .. }) {
            *state = Link::Connecting { attempt: 0 };
        }
    }
}

/// What an edge reports its connection with. Clones share the state.
#[derive(Debug, Clone)]
pub struct LinkReporter {
    pub(crate) entry: Arc<LinkEntry>,
    pub(crate) path: Arc<str>,
    pub(crate) events: EventLog,
}

impl LinkReporter {
    /// The peer answers.
    pub fn up(&self) {
        let mut state = self.entry.state.lock();
        if !matches!(*state, Link::Up { .. }) {
            *state = Link::Up { since_ms: now_ms() };
            drop(state);
            *self.entry.reported.lock() = None;
            tracing::info!(
                path = &*self.path,
                kind = self.entry.kind,
                endpoint = self.entry.endpoint,
                "link up"
            );
            self.events.push(&self.path, EventKind::LinkUp);
        }
    }

    /// Reports that the peer is away; `reason` says what to do, the next try is in `retry_in`. The same reason again is no event,
    /// also with tries in between. The reason is kept as [`sanitize`] gives it: it may repeat what a peer said.
    pub fn down(&self, reason: impl AsRef<str>, retry_in: Duration) {
        let (reason, retry_at) = (sanitize(reason.as_ref()), Instant::now() + retry_in);
        let mut state = self.entry.state.lock();
        let since_ms = match &*state {
            Link::Down { since_ms, .. } => *since_ms,
            _ => now_ms(),
        };
        *state = Link::Down { since_ms, reason: reason.clone(), retry_at };
        drop(state);
        if self.entry.reported.lock().replace(reason.clone()).as_ref() != Some(&reason) {
            tracing::warn!(path = &*self.path, kind = self.entry.kind, reason, "link down");
            self.events.push(&self.path, EventKind::LinkDown { reason });
        }
    }

    /// The connection is not wanted at present, and closed.
    pub fn idle(&self) {
        *self.entry.state.lock() = Link::Idle;
    }

    /// A try is under way.
    pub fn connecting(&self, attempt: u32) {
        *self.entry.state.lock() = Link::Connecting { attempt };
    }

    /// Is the peer there?
    pub fn is_up(&self) -> bool {
        matches!(*self.entry.state.lock(), Link::Up { .. })
    }
}
