//! Hook, as the outbox knows it.

use tokio::sync::watch;

use crate::config::Occasion;

/// Hook whose occurrences are stored.
#[derive(Debug)]
pub(crate) struct HookQueue {
    pub(crate) name: String,
    pub(crate) on: Occasion,
    /// Number of occurrences that wait.
    pub(crate) backlog: watch::Sender<u64>,
}
