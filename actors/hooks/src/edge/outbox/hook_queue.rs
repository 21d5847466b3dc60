//! Hook, as the outbox knows it.

use tokio::sync::watch;

use crate::{config::HookEventKind, messages::Kept};

/// Hook whose occurrences are stored.
#[derive(Debug)]
pub(crate) struct HookQueue {
    pub(crate) name: String,
    pub(crate) on: HookEventKind,
    /// Occurrences in the outbox.
    pub(crate) kept: watch::Sender<Kept>,
}
