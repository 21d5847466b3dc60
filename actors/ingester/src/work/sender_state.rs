//! State of the sender, for operators.

use std::time::Duration;

use super::sender::{CHUNKS_MAX, EventSender, WaitCondition};
use crate::assignment::{Assignment, WorkerName};

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

impl EventSender {
    /// State, with the place of `event`.
    pub(super) fn state(&self, event: Option<u64>) -> SenderState {
        let (condition, since) = self.condition;
        let held = self.held.iter().filter(|(_, message)| Some(message.event) == event);
        SenderState {
            mapping: self.mapping.number,
            condition,
            waited: since.elapsed(),
            next: self.chunks().find_map(<[_]>::first).map(|assignment| assignment.event),
            last_assigned: self.last_assigned,
            is_full: self.ahead.len() >= CHUNKS_MAX,
            refused: self.held.front().map(|(worker, message)| (worker.clone(), message.event)),
            refused_by: held.map(|(worker, _)| worker.clone()).collect(),
            asked: event.and_then(|event| self.find(event)),
        }
    }

    /// Assigned events that are not sent, in order.
    fn chunks(&self) -> impl Iterator<Item = &[Assignment]> {
        std::iter::once(self.assignments.as_slice()).chain(self.ahead.iter().map(Vec::as_slice))
    }

    /// Searches only the chunks that may have the event, so that no burst is delayed.
    fn find(&self, event: u64) -> Option<AssignedEvent> {
        let mut before = 0;
        for chunk in self.chunks() {
            if chunk.last().is_some_and(|last| last.event >= event)
                && let Some(at) = chunk.iter().position(|assignment| assignment.event == event)
            {
                let mut workers: Vec<_> =
                    chunk[at].streams.iter().flat_map(|(_, workers)| workers.iter().cloned()).collect();
                workers.sort_unstable();
                workers.dedup();
                return Some(AssignedEvent { workers, before: before + at });
            }
            before += chunk.len();
        }
        None
    }
}
