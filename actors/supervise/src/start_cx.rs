//! The start of an incarnation.

use std::{fmt, sync::Arc};

use tokio_util::sync::CancellationToken;

use crate::{Tree, Vitals};

/// What an incarnation is started with.
#[derive(Clone)]
pub struct StartCx {
    /// Position in a pool, else 0.
    pub index: usize,
    /// The child's metrics, link and state.
    pub vitals: Arc<Vitals>,
    /// Cancelled when the child must stop: drain what waits, then end.
    pub stop: CancellationToken,
    /// Number of this incarnation, from 1.
    pub incarnation: u64,
    /// The tree: [`Tree::request_restart`] has a sibling, or this child, started anew.
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
