//! State of the events' sender, for operators. Pure.

use std::time::Duration;

use crate::assignment::WorkerName;

/// Condition that the next burst waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitCondition {
    /// The start of the dump, or another task of the arbiter.
    Yield,
    /// Assigned events.
    Events,
    /// Items of the stream at this position.
    Items(usize),
    /// Room in a worker's queue.
    Room,
    /// Room for the next event of the dump.
    Dump,
}

/// State of the sender between two bursts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SenderState {
    /// Number of the mapping.
    pub(crate) mapping: u64,
    /// Condition that the next burst waits for.
    pub(crate) condition: WaitCondition,
    /// Time since that began.
    pub(crate) waited: Duration,
    /// First event that is assigned and not sent.
    pub(crate) next: Option<u64>,
    /// Last event that was assigned.
    pub(crate) last_assigned: Option<u64>,
    /// No more assignments are taken before an event is sent.
    pub(crate) is_full: bool,
    /// First message that a full queue refused: its worker and its event.
    pub(crate) refused: Option<(WorkerName, u64)>,
    /// Workers whose full queues refused the event that was asked about, or wait behind such a one.
    pub(crate) refused_by: Vec<WorkerName>,
    /// The event that was asked about, if it is assigned and not sent.
    pub(crate) asked: Option<AssignedEvent>,
}

/// An event that is assigned and not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AssignedEvent {
    /// Workers of any of its streams.
    pub(crate) workers: Vec<WorkerName>,
    /// Number of events before it that are not sent.
    pub(crate) before: usize,
}
