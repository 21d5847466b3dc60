//! State of a rule's two kinds of polls.

use tokio::time::Instant;

use crate::state_change::StateChange;

/// State of a rule's two kinds of polls. A [`StateChange`] is absent while its poll is in flight.
pub(super) struct PollState {
    pub(super) candidates: Option<StateChange>,
    pub(super) held_rows: Option<StateChange>,
    /// A poll for candidates is requested.
    pub(super) wanted: bool,
    /// ETag at which there were no candidates.
    pub(super) idle: Option<String>,
    /// ETag of the last poll, by target.
    pub(super) last_etags: [Option<String>; 2],
    /// Bytes of the cached response, by target.
    pub(super) cached_bytes: [usize; 2],
    /// Earliest end of another agent's lease.
    pub(super) next_lease_end: Option<Instant>,
    /// Earliest time of the next poll for held rows, unless a lease ends.
    pub(super) held_rows_from: Instant,
}

impl PollState {
    pub(super) fn new(candidates: StateChange, held_rows: Option<StateChange>) -> Self {
        Self {
            candidates: Some(candidates),
            held_rows,
            wanted: true,
            idle: None,
            last_etags: [None, None],
            cached_bytes: [0; 2],
            next_lease_end: None,
            held_rows_from: Instant::now(),
        }
    }

    /// Requests a poll that is evaluated even if the catalog has not changed.
    pub(super) fn poll_unconditionally(&mut self) {
        self.wanted = true;
        self.idle = None;
    }

    /// None: not before a poll for candidates shows a change.
    pub(super) fn held_rows_due(&self) -> Option<Instant> {
        self.held_rows.as_ref()?;
        let changed = (self.last_etags[0].is_none() || self.last_etags[0] != self.last_etags[1])
            .then_some(self.held_rows_from);
        [self.next_lease_end, changed].into_iter().flatten().min()
    }
}
