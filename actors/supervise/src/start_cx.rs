//! Context of an incarnation of a task or thread.

use std::{fmt, sync::Arc};

use tokio_util::sync::CancellationToken;

use crate::{Tree, Vitals};

/// Context of an incarnation: position, vitals, stop token and tree.
#[derive(Clone)]
pub struct StartCx {
    /// Position in a pool, otherwise 0.
    pub index: usize,
    /// Metrics, link and state of the child.
    pub vitals: Arc<Vitals>,
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
