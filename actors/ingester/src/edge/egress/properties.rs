//! Property tests of a peer's queue against a single list.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use bytes::Bytes;
use proptest::prelude::*;

use super::{
    Message,
    queue::{Body, Destination, Entry, PeerQueue, RECORD_HEAD, Shares},
};
use crate::item::Parts;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// A message of this length is queued.
    Give(usize),
    /// The connection stages this many messages and completes this many.
    Write(usize, usize),
    /// The connection is lost.
    Lose,
    /// The spill thread takes a job.
    Begin,
    /// The job ends; false: the write failed.
    End(bool),
    /// The spill thread restarts in the middle of a job.
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_000_usize).prop_map(Step::Give),
        4 => (0..8_usize, 0..8_usize).prop_map(|(stage, send)| Step::Write(stage, send)),
        1 => Just(Step::Lose),
        4 => Just(Step::Begin),
        4 => prop::bool::weighted(0.8).prop_map(Step::End),
        1 => Just(Step::Crash),
    ]
}

/// A message with its number as header.
fn entry(number: u64, len: usize) -> Entry {
    let header = Bytes::from(number.to_be_bytes().to_vec());
    Entry::new(
        Arc::new(Message {
            event: number,
            header,
            frames: [Bytes::from(vec![0; len])].into_iter().collect(),
            received: Instant::now(),
        }),
        number,
    )
}

/// The queue with a disk, the model, and the jobs in progress.
#[derive(Default)]
struct QueueModel {
    queue: PeerQueue,
    model: VecDeque<u64>,
    disk: VecDeque<Entry>,
    writing: Option<Vec<Entry>>,
    reading: Option<usize>,
    staged: VecDeque<u64>,
    next: u64,
}

const SHARES: Shares = Shares { front: 6_000, to_disk: 5_000 };

fn record(entry: &Entry) -> u64 {
    (entry.wire + RECORD_HEAD) as u64
}

impl QueueModel {
    fn step(&mut self, step: Step) {
        match step {
            Step::Give(len) => {
                let entry = entry(self.next, len);
                match self.queue.destination(entry.cost(), SHARES, true) {
                    Destination::Front => self.queue.push_front_share(entry.compact(1_000)),
                    Destination::Disk => self.queue.push_to_disk(entry.compact(1_000)),
                    Destination::Refused => return,
                }
                self.model.push_back(self.next);
                self.next += 1;
            }
            Step::Write(stage, send) => {
                for _ in 0..stage {
                    self.staged.extend(self.queue.stage().map(|entry| entry.at_ms));
                }
                let send = send.min(self.staged.len());
                for sent in self.staged.drain(..send) {
                    assert_eq!(Some(sent), self.model.pop_front(), "in order, each once");
                }
                self.queue.sent(send, |_| ());
            }
            Step::Lose => {
                self.staged.clear();
                self.queue.unstage();
            }
            Step::Begin if self.writing.is_none() && self.reading.is_none() => {
                self.writing = self.queue.begin_write(2_000);
                self.reading = self.queue.begin_read(SHARES);
            }
            Step::Begin => {}
            Step::End(succeeded) => self.end(succeeded),
            Step::Crash => {
                self.writing = None;
                self.reading = None;
                self.queue.abandon_disk_work();
            }
        }
        self.queue.settle(SHARES);
        self.check();
    }

    fn end(&mut self, succeeded: bool) {
        if let Some(entries) = self.writing.take() {
            self.queue.end_write(succeeded.then(|| entries.iter().map(record).sum()));
            if succeeded {
                self.disk.extend(entries);
            }
        } else if let Some(bytes) = self.reading.take() {
            let mut taken = 0;
            let mut entries = Vec::new();
            while let Some(entry) = self.disk.pop_front() {
                taken += record(&entry);
                entries.push(entry);
                if taken > bytes as u64 || !succeeded {
                    break;
                }
            }
            self.queue.end_read(entries, taken);
        }
    }

    fn check(&self) {
        assert_eq!(self.queue.messages(), self.model.len());
        assert_eq!(self.queue.is_empty(), self.model.is_empty());
        assert_eq!(self.queue.disk_bytes(), self.disk.iter().map(record).sum::<u64>());
        // Each share may be exceeded by one message that was alone in it or was read back.
        assert!(self.queue.memory() <= SHARES.front + SHARES.to_disk + 2 * 3_200, "{}", self.queue.memory());
    }
}

proptest! {
    #[test]
    fn messages_leave_in_order_and_once(steps in prop::collection::vec(step(), 0..300)) {
        let mut queue_model = QueueModel::default();
        steps.into_iter().for_each(|step| queue_model.step(step));
        // The remaining messages leave, too.
        while !queue_model.model.is_empty() {
            let before = queue_model.model.len();
            for step in [Step::Write(9, 9), Step::Begin, Step::End(true), Step::End(true), Step::Write(9, 9)] {
                queue_model.step(step);
            }
            prop_assert!(queue_model.model.len() < before || queue_model.queue.disk_bytes() > 0, "it goes on");
        }
    }

    #[test]
    fn a_compact_copy_has_the_same_bytes(lens in prop::collection::vec(0..3_000_usize, 0..5)) {
        let frames: Parts = lens.iter().map(|&len| Bytes::from(vec![len as u8; len])).collect();
        let message = Message { event: 0, header: Bytes::from_static(b"{}"), frames, received: Instant::now() };
        let given = Entry::new(Arc::new(message.clone()), 0);
        let mut wire = Vec::new();
        orchestrator_ingester_zmtp::encode_message(&message.parts(), &mut wire);
        prop_assert_eq!(wire.len(), given.wire);
        match given.compact(1_000).body {
            Body::Wire(copy) => prop_assert_eq!(&copy[..], &wire[..]),
            Body::Shared(copy) => prop_assert_eq!(&*copy, &message),
        }
    }
}
