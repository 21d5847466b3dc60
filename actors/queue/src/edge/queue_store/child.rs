//! The child: what its incarnations have in common.

use std::sync::Arc;

use orchestrator_queue_store::{Store, Wiring};
use orchestrator_supervise::{ChildSpec, DurableView, Factory, InboxSlot, OnRestart, Outbox, PauseSpan};

use crate::{
    config::QueueConfig,
    messages::{IngestOp, ReadCommand, StoreRequest},
};

/// Inboxes and settings of all incarnations.
pub(crate) struct QueueStore {
    pub(crate) config: QueueConfig,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) wiring: Wiring,
    pub(crate) requests: InboxSlot<StoreRequest>,
    pub(crate) ingest: InboxSlot<IngestOp>,
    /// Tells the reader of files that belong to another instance.
    pub(crate) commands: Outbox<ReadCommand>,
    /// Pause of hand-outs by an operator.
    pub(crate) pause: DurableView<Option<PauseSpan>>,
}

impl QueueStore {
    /// A restarted reader sends every operation again, so operations of its predecessor are dropped.
    pub(crate) fn child(self) -> ChildSpec {
        let (requests, ingest, commands) =
            (self.requests.clone(), self.ingest.clone(), self.commands.clone());
        let factory = Factory::thread(move |cx| self.run(&cx))
            .with_inbox("requests", &requests)
            .with_inbox("ingest", &ingest);
        ChildSpec::worker("queue_store", factory).on_restart(OnRestart::Purge).sends_to(&commands)
    }
}
