//! Place of one event in the workers' queues, for operators. Found by its number, since the events of a queue
//! are in order.

use std::collections::VecDeque;

use super::{
    Egress, idle_worker,
    peer_state::PeerState,
    queue::{Body, Entry, PeerQueue},
    slow_worker::{self, WorkerCause},
};
use crate::assignment::WorkerName;

/// Beginning of each message's header, which the number follows.
const NUMBER_AFTER: &[u8] = br#"{"event_number":"#;
/// Bytes before it: those of the frame's header.
const FRAME_HEADER_MAX: usize = 9;

/// Place of an event, as far as a worker's queue tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In memory, behind this number of other messages.
    Memory { ahead: usize },
    /// On disk: all events of this range are.
    Disk { first: u64, last: u64 },
    /// On disk, if it is one of this worker: some events of the range are.
    PerhapsDisk { first: u64, last: u64 },
    /// The worker has taken it, if it was assigned to it.
    Taken,
}

impl Egress {
    /// Place of `event` at each worker for which it, or a later one, was queued, by name.
    pub(crate) fn locate(&self, event: u64) -> Vec<(WorkerName, Place)> {
        let mut places = self.lock().locate(event);
        places.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        places
    }

    /// Worker that takes or finishes nothing although it has events, as `why` names it.
    pub(crate) fn held_up(&self, states: &[PeerState]) -> Option<WorkerCause> {
        let read = self.lock().reports_read().map(|read| (read, read.began.elapsed()));
        slow_worker::find(states, self.holds_senders())
            .or_else(|| idle_worker::find(states, read, self.worker_idle()))
    }
}

impl PeerQueue {
    /// Place of an event that is not behind `queued`, the last one that was given to the queue.
    pub(super) fn locate(&self, event: u64, queued: u64) -> Place {
        let (front, disk_messages, to_disk) = self.parts();
        let find = |part: &VecDeque<Entry>| part.binary_search_by_key(&Some(event), event_of).ok();
        if let Some(ahead) = find(front) {
            return Place::Memory { ahead };
        }
        if let Some(at) = find(to_disk) {
            return Place::Memory { ahead: front.len() + disk_messages + at };
        }
        let first = front.back().and_then(event_of).map(|event| event + 1);
        let last = to_disk.front().and_then(event_of).map_or(queued, |event| event.saturating_sub(1));
        let may_be_on_disk = disk_messages > 0 && first.is_none_or(|first| first <= event) && event <= last;
        match first.filter(|_| may_be_on_disk) {
            Some(first) if last - first + 1 == disk_messages as u64 => Place::Disk { first, last },
            None if !may_be_on_disk => Place::Taken,
            first => Place::PerhapsDisk { first: first.unwrap_or_default(), last },
        }
    }
}

/// Number of an entry's event.
fn event_of(entry: &Entry) -> Option<u64> {
    match &entry.body {
        Body::Shared(message) => Some(message.event),
        Body::Wire(wire) => {
            let head = &wire[..wire.len().min(FRAME_HEADER_MAX + NUMBER_AFTER.len())];
            let at = head.windows(NUMBER_AFTER.len()).position(|window| window == NUMBER_AFTER)?;
            let digits = wire[at + NUMBER_AFTER.len()..].iter().take_while(|byte| byte.is_ascii_digit());
            Some(digits.fold(0_u64, |number, digit| number.wrapping_mul(10) + u64::from(digit - b'0')))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;

    use super::{super::message::Message, *};

    fn entry(event: u64) -> Entry {
        let header = Bytes::from(format!(r#"{{"event_number":{event},"streams":{{}}}}"#));
        let frames = [Bytes::from_static(b"frame")].into_iter().collect();
        Entry::new(Message { event, header, frames, received: Instant::now() }.into(), 0)
    }

    #[test]
    fn an_event_is_found_in_memory_and_on_disk_by_its_number() {
        let mut queue = PeerQueue::default();
        [3, 5, 6].into_iter().for_each(|event| queue.push_front_share(entry(event)));
        [7, 8, 9, 12].into_iter().for_each(|event| queue.push_to_disk(entry(event).compact(4_096)));
        assert_eq!(queue.locate(8, 12), Place::Memory { ahead: 4 }, "waits for the disk");
        queue.begin_write(100).expect("messages for the disk");
        queue.end_write(Some(1));
        let places = [2, 3, 4, 6].map(|event| queue.locate(event, 12));
        let memory = |ahead| Place::Memory { ahead };
        assert_eq!(places, [Place::Taken, memory(0), Place::Taken, memory(2)]);
        assert_eq!(queue.locate(12, 12), memory(6));
        assert_eq!(queue.locate(8, 12), Place::PerhapsDisk { first: 7, last: 11 });
        queue.push_to_disk(entry(13));
        let mut whole = PeerQueue::default();
        whole.push_front_share(entry(0));
        [1, 2].into_iter().for_each(|event| whole.push_to_disk(entry(event)));
        whole.begin_write(usize::MAX).expect("messages for the disk");
        whole.end_write(Some(1));
        assert_eq!(whole.locate(2, 2), Place::Disk { first: 1, last: 2 });
    }
}
