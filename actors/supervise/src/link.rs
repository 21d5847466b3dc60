//! State of a child's connection to a peer outside the process. A peer that is down is a state of the child, not an exit.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    event::{EventKind, EventLog, now_ms},
    text::sanitize,
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
        /// Reason, with what to do.
        reason: String,
        /// Time of the next attempt.
        retry_at: Instant,
    },
}

#[derive(Debug)]
pub(crate) struct LinkEntry {
    pub(crate) kind: &'static str,
    pub(crate) endpoint: String,
    pub(crate) state: Mutex<Link>,
    /// Last reason logged, until the link is up: the same reason after another attempt is not logged again.
    reported: Mutex<Option<String>>,
}

impl LinkEntry {
    pub(crate) fn new(kind: &'static str, endpoint: String) -> Arc<Self> {
        let state = Mutex::new(Link::Connecting { attempt: 0 });
        Arc::new(Self { kind, endpoint, state, reported: Mutex::new(None) })
    }

    /// Resets the state at the end of an incarnation, which closes its connection.
    pub(crate) fn reset(&self) {
        let mut state = self.state.lock();
        if matches!(*state, Link::Up { .. }) {
            *state = Link::Connecting { attempt: 0 };
        }
    }
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

    /// Reports that the connection is down, and retried after `retry_in`. `reason` says what to do; it is escaped and limited by
    /// [`sanitize`]. A repeated reason is not logged again.
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

    /// Reports that the connection is closed because it is not needed at present.
    pub fn idle(&self) {
        *self.entry.state.lock() = Link::Idle;
    }

    /// Reports an attempt in progress.
    pub fn connecting(&self, attempt: u32) {
        *self.entry.state.lock() = Link::Connecting { attempt };
    }

    /// Returns true if the connection is up.
    pub fn is_up(&self) -> bool {
        matches!(*self.entry.state.lock(), Link::Up { .. })
    }
}
