//! Handles and counters of Work.

use orchestrator_supervise::{Durable, DurableView, Recipient, metrics};

use crate::{
    config::OnGap,
    edge::{dump::Dump, egress::Egress},
    mapping::Mappings,
    messages::ScanStarted,
    stream_queue::StreamQueues,
};

/// What Work works with.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) streams: StreamQueues,
    pub(crate) mappings: DurableView<Mappings>,
    /// Number of the mapping whose events have begun to leave.
    pub(crate) begun: Durable<u64>,
    pub(crate) ingester: Recipient<ScanStarted>,
    pub(crate) egress: Egress,
    pub(crate) dump: Dump,
    pub(crate) on_gap: OnGap,
}

metrics! {
    /// Metrics of Work.
    pub(crate) struct WorkMetrics {
        /// Events handed over to their workers.
        pub(crate) events: counter("events"),
        /// Bytes handed over to workers.
        pub(crate) bytes: counter("bytes") as "event",
        /// Time spent waiting for events to be assigned.
        pub(crate) wait_assignment: counter("microseconds") as "wait_for_assignment",
        /// Time spent waiting for frames of assigned events.
        pub(crate) wait_source: counter("microseconds") as "wait_for_source",
        /// Time spent waiting for room in a worker's queue.
        pub(crate) wait_egress: counter("microseconds") as "wait_for_workers",
        /// 1 while a worker has no room left, in memory or on disk, and all wait for it.
        pub(crate) held_up: gauge("") as "held_up_by_workers",
        /// Events whose frame was lost and that were sent without it.
        pub(crate) holes: counter(""),
        /// Items whose event had been sent without them.
        pub(crate) late: counter("items") as "late_items",
        /// Events left out of the dump because the disk was behind.
        pub(crate) not_dumped: counter("") as "events_not_dumped",
        /// Scans that were interrupted: the rest of their events is not sent.
        pub(crate) broken: counter("scans") as "broken_scans",
    }
}
