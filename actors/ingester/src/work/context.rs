//! Handles and counters of Work.

use orchestrator_observe::metrics;
use orchestrator_supervise::{Durable, DurableView, Recipient};

use crate::{
    config::{DumpOverflow, OnGap},
    edge::{dump::Dump, egress::Egress},
    mapping::Mappings,
    messages::ScanStarted,
    stream_queue::StreamQueues,
};

/// Handles of the actor Work.
#[derive(Clone)]
pub(crate) struct WorkContext {
    pub(crate) streams: StreamQueues,
    pub(crate) mappings: DurableView<Mappings>,
    /// Number of the mapping of which events were sent.
    pub(crate) begun: Durable<u64>,
    /// Number of the last mapping whose scan was interrupted.
    pub(crate) interrupted: Durable<u64>,
    /// Events sent since the process started.
    pub(crate) sent: Durable<u64>,
    pub(crate) ingester: Recipient<ScanStarted>,
    pub(crate) egress: Egress,
    pub(crate) dump: Dump,
    pub(crate) on_gap: OnGap,
    pub(crate) dump_overflow: DumpOverflow,
}

metrics! {
    /// Metrics of Work.
    pub(crate) struct WorkMetrics {
        /// Events queued for their workers.
        pub(crate) events: counter("events"),
        /// Events of the current mapping that were queued for their workers.
        pub(crate) of_mapping: gauge("events") as "mapping_sent",
        /// Bytes queued for workers.
        pub(crate) bytes: counter("bytes") as "event",
        /// Time spent waiting for events to be assigned.
        pub(crate) wait_assignment: counter("microseconds") as "wait_for_assignment",
        /// Time spent waiting for frames of assigned events.
        pub(crate) wait_source: counter("microseconds") as "wait_for_source",
        /// Time spent waiting for room in a worker's queue.
        pub(crate) wait_egress: counter("microseconds") as "wait_for_workers",
        /// Time spent waiting for the dump (`dump_overflow = "block"`).
        pub(crate) wait_dump: counter("microseconds") as "wait_for_dump",
        /// 1 while a worker's queue is full, in memory and on disk, and all sending waits for it.
        pub(crate) blocked: gauge("") as "blocked_by_worker",
        /// Events sent although a frame of theirs was missing (`on_gap = "align"`).
        pub(crate) without_frame: counter("") as "events_without_frame",
        /// Frames dropped because their event was already sent without them (`on_gap = "align"`), or passed.
        pub(crate) late: counter("items") as "late_items",
        /// Events left out of the dump because the disk was too slow.
        pub(crate) not_dumped: counter("") as "events_not_dumped",
        /// Interrupted scans, whose remaining events are not sent.
        pub(crate) interrupted: counter("scans") as "interrupted_scans",
    }
}
