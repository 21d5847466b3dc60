//! What every handler is given: the tree, and which child of it the endpoint is.

use orchestrator_supervise::{StopToken, Tree};

/// Shared by all connections of one incarnation.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) tree: Tree,
    /// The endpoint's own path.
    pub(crate) own_path: String,
    /// Cancelled when the endpoint itself must go.
    pub(crate) stop: StopToken,
}

impl Access {
    /// Is the child at `path` the endpoint itself, or a supervisor above it?
    pub(crate) fn carries_endpoint(&self, path: &str) -> bool {
        let rest = self.own_path.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
