//! The sender's answer to [`LocateEvent`](crate::messages::LocateEvent).

use super::sender::{CHUNKS_MAX, EventSender};
use crate::{
    assignment::Assignment,
    sender_state::{AssignedEvent, SenderState},
};

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
