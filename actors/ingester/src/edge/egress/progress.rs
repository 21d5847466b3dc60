//! Events of the current mapping at one worker.

use std::time::Instant;

/// Numbers of a worker's last events in the current mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Last event assigned to it.
    pub assigned: Option<u64>,
    /// Last event queued for it.
    pub queued: Option<u64>,
    /// Last event that it reported as finished. It is read from Redis only if it is needed.
    pub finished: Option<u64>,
}

impl Progress {
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Report of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinishedEvent {
    /// Name of the worker, as it reports it.
    pub worker: String,
    /// The event, and with it all events that the worker had before.
    pub event: u64,
}

/// A read of all reports of the current mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportsRead {
    /// Time when the read began.
    pub began: Instant,
    /// Other ingesters take part in the mapping.
    pub shared: bool,
}
