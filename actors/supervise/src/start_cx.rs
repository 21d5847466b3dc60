//! Context of an incarnation of a task or thread.

use std::{fmt, sync::Arc};

use orchestrator_observe::Vitals;
use tokio_util::sync::CancellationToken;

use crate::{ChildState, Tree};

/// Context of an incarnation: position, state, stop token and tree.
#[derive(Clone)]
pub struct StartCx {
    /// Position in a pool, otherwise 0.
    pub index: usize,
    /// Metrics, link and work that the child reports.
    pub vitals: Arc<Vitals>,
    /// Incarnation, restarts, pause and queues of the child.
    pub child: Arc<ChildState>,
    /// Cancelled when the child must stop: it handles waiting items, then ends.
    pub stop: CancellationToken,
    /// Number of this incarnation, from 1.
    pub incarnation: u64,
    /// The start follows from a command, not from a failure. A supervisor passes it on to its children.
    pub(crate) planned: bool,
    /// Handle on the tree, for example to restart a sibling ([`Tree::request_restart`]).
    pub tree: Tree,
}

impl fmt::Debug for StartCx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartCx")
            .field("path", &self.vitals.path())
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}
