//! The child: what its incarnations have in common.

use std::sync::Arc;

use orchestrator_supervise::{DurableView, InboxSlot, Outbox, PauseSpan};

#[cfg(feature = "postgres")]
use crate::edge::postgres::{AddedKeys, OwnIncarnation, WaitingJobs};
use crate::{
    config::QueueConfig,
    edge::housekeeper::WalState,
    last_request::LastRequest,
    messages::{Chore, IngestOp, ReadCommand, StoreRequest},
};

/// Inboxes and settings of all incarnations.
pub(crate) struct QueueStore {
    pub(crate) config: QueueConfig,
    pub(crate) requests: InboxSlot<StoreRequest>,
    pub(crate) ingest: InboxSlot<IngestOp>,
    pub(crate) chores: Outbox<Chore>,
    /// Tells the reader of files that belong to another instance.
    pub(crate) commands: Outbox<ReadCommand>,
    pub(crate) wal_state: Arc<WalState>,
    #[cfg(feature = "postgres")]
    pub(crate) incarnation: OwnIncarnation,
    #[cfg(feature = "postgres")]
    pub(crate) added: AddedKeys,
    #[cfg(feature = "postgres")]
    pub(crate) waiting: WaitingJobs,
    pub(crate) last_request: LastRequest,
    /// Pause of hand-outs by an operator.
    pub(crate) pause: DurableView<Option<PauseSpan>>,
}
