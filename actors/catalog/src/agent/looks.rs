//! The two looks of a rule, and when the next one is due.

use tokio::time::Instant;

use crate::state_change::StateChange;

/// The two looks of a rule. Each is away while it is under way.
pub(super) struct Looks {
    pub(super) candidates: Option<StateChange>,
    pub(super) others: Option<StateChange>,
    /// There may be candidates.
    pub(super) wanted: bool,
    /// The ETag at which there were none.
    pub(super) idle: Option<String>,
    /// The ETag of the last look for candidates, and for what others hold.
    pub(super) seen: [Option<String>; 2],
    /// When a lease of somebody else ends.
    pub(super) soonest: Option<Instant>,
    /// Not before that it is looked for what others hold, unless a lease ends.
    pub(super) others_from: Instant,
}

impl Looks {
    pub(super) fn new(candidates: StateChange, others: Option<StateChange>) -> Self {
        Self {
            candidates: Some(candidates),
            others,
            wanted: true,
            idle: None,
            seen: [None, None],
            soonest: None,
            others_from: Instant::now(),
        }
    }

    /// Looks again, also if nothing has changed.
    pub(super) fn anew(&mut self) {
        self.wanted = true;
        self.idle = None;
    }

    /// When to look for what others hold; None: when a look for candidates has told of a change.
    pub(super) fn others_due(&self) -> Option<Instant> {
        self.others.as_ref()?;
        let changed = (self.seen[0].is_none() || self.seen[0] != self.seen[1]).then_some(self.others_from);
        [self.soonest, changed].into_iter().flatten().min()
    }
}
