//! Queue of one peer: in memory, waiting for the disk, and on disk. Pure: no clock, no socket, no
//! file.
//!
//! The order is `front` (memory), then the records on disk, then `to_disk`. A message joins `front`
//! only while the other two are empty.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use bytes::{Bytes, BytesMut};
use orchestrator_ingester_zmtp::encode_message;

use super::message::Message;
/// Memory of a message beside its bytes: queue entries and allocations.
const ENTRY_BYTES: usize = 128;

/// Bytes before each record on disk: length and time.
pub(super) const RECORD_HEAD: usize = 16;

/// Stored form of a message.
#[derive(Debug, Clone)]
pub(super) enum Body {
    /// Shared with the queues of other peers.
    Shared(Arc<Message>),
    /// Encoded.
    Wire(Bytes),
}

/// One message in a queue.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) body: Body,
    /// Encoded length, bytes.
    pub(super) wire: usize,
    /// Time when it was queued, milliseconds after the egress was created.
    pub(super) at_ms: u64,
    /// Time when the last of its items was received; None after a stay on disk.
    pub(super) received: Option<Instant>,
}

impl Entry {
    pub(super) fn new(message: Arc<Message>, at_ms: u64) -> Self {
        let (wire, received) = (message.wire_bytes(), Some(message.received));
        Self { body: Body::Shared(message), wire, at_ms, received }
    }

    pub(super) fn from_wire(wire: Bytes, at_ms: u64) -> Self {
        Self { wire: wire.len(), body: Body::Wire(wire), at_ms, received: None }
    }

    /// Accounted memory, bytes.
    pub(super) fn cost(&self) -> usize {
        self.wire + ENTRY_BYTES
    }

    /// Copies frames of up to `small` bytes, which are slices of larger read blocks.
    pub(super) fn compact(self, small: usize) -> Self {
        let Body::Shared(message) = &self.body else { return self };
        let body = if self.wire <= small {
            let mut wire = BytesMut::with_capacity(self.wire);
            encode_message(&message.parts(), &mut wire);
            Body::Wire(wire.freeze())
        } else if message.frames.iter().any(|frame| frame.len() <= small) {
            let copy = |frame: &Bytes| {
                if frame.len() <= small { Bytes::copy_from_slice(frame) } else { frame.clone() }
            };
            let frames = message.frames.iter().map(copy).collect();
            Body::Shared(Arc::new(Message {
                event: message.event,
                header: message.header.clone(),
                frames,
                received: message.received,
            }))
        } else {
            return self;
        };
        Self { body, ..self }
    }
}

/// Part of the queue that takes a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    Front,
    Disk,
    Refused,
}

/// Memory of each part of a queue, bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    pub(super) front: usize,
    pub(super) to_disk: usize,
}

impl Shares {
    /// Splits a peer's budget: half for the front, half for messages waiting for the disk. Without
    /// a disk all is the front's.
    pub(super) fn new(budget: usize, spills: bool) -> Self {
        if spills {
            Self { front: budget / 2, to_disk: budget - budget / 2 }
        } else {
            Self { front: budget, to_disk: 0 }
        }
    }
}

/// Queue of one peer.
#[derive(Debug, Default)]
pub(super) struct PeerQueue {
    front: VecDeque<Entry>,
    front_bytes: usize,
    /// Messages at the front that the connection has staged.
    staged: usize,
    to_disk: VecDeque<Entry>,
    to_disk_bytes: usize,
    /// Messages at the head of `to_disk` that are being written.
    writing: usize,
    disk_messages: usize,
    disk_bytes: u64,
    reading: bool,
}

impl PeerQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.front.is_empty() && self.to_disk.is_empty() && self.disk_messages == 0
    }

    pub(super) fn messages(&self) -> usize {
        self.front.len() + self.to_disk.len() + self.disk_messages
    }

    /// Messages in memory, their number on disk, and the messages behind those, in this order.
    pub(super) fn parts(&self) -> (&VecDeque<Entry>, usize, &VecDeque<Entry>) {
        (&self.front, self.disk_messages, &self.to_disk)
    }

    /// Memory in use, bytes.
    pub(super) fn memory(&self) -> usize {
        self.front_bytes + self.to_disk_bytes
    }

    /// Records on disk, bytes.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// Time of the oldest message; unknown if only records on disk wait.
    pub(super) fn oldest_ms(&self) -> Option<u64> {
        self.front.front().or_else(|| self.to_disk.front()).map(|entry| entry.at_ms)
    }

    /// True if all messages are in the front.
    pub(super) fn is_direct(&self) -> bool {
        self.to_disk.is_empty() && self.disk_messages == 0
    }

    /// Bytes of `to_disk` as encoded on disk.
    pub(super) fn to_disk_record_bytes(&self) -> u64 {
        (self.to_disk_bytes - self.to_disk.len() * (ENTRY_BYTES - RECORD_HEAD)) as u64
    }

    /// Part of the queue for a message of `cost` bytes; `disk` is true if the disk may take more. A message
    /// goes to disk if it does not fit at the front, or if earlier ones already wait for the disk.
    /// An oversized message is taken by an empty part, or it would never be sent.
    pub(super) fn destination(&self, cost: usize, shares: Shares, disk: bool) -> Destination {
        let fits = |used: usize, share: usize| used == 0 || used.saturating_add(cost) <= share;
        if self.is_direct() && fits(self.front_bytes, shares.front) {
            Destination::Front
        } else if disk && shares.to_disk > 0 && fits(self.to_disk_bytes, shares.to_disk) {
            Destination::Disk
        } else {
            Destination::Refused
        }
    }

    pub(super) fn push_front_share(&mut self, entry: Entry) {
        self.front_bytes += entry.cost();
        self.front.push_back(entry);
    }

    pub(super) fn push_to_disk(&mut self, entry: Entry) {
        self.to_disk_bytes += entry.cost();
        self.to_disk.push_back(entry);
    }

    /// Next message that is not staged.
    pub(super) fn stage(&mut self) -> Option<&Entry> {
        let entry = self.front.get(self.staged)?;
        self.staged += 1;
        Some(entry)
    }

    /// Unstages all messages after the loss of a connection; they are sent again, whole.
    pub(super) fn unstage(&mut self) {
        self.staged = 0;
    }

    /// Removes the first `count` messages, which were sent, and gives each to `record`.
    pub(super) fn sent(&mut self, count: usize, record: impl Fn(&Entry)) {
        for entry in self.front.drain(..count) {
            self.front_bytes -= entry.cost();
            record(&entry);
        }
        self.staged -= count;
    }

    /// Moves messages from `to_disk` to the front while nothing is on disk and they fit.
    pub(super) fn settle(&mut self, shares: Shares) {
        while self.disk_messages == 0 && self.writing == 0 && !self.reading {
            let Some(next) = self.to_disk.front() else { return };
            if self.front_bytes > 0 && self.front_bytes + next.cost() > shares.front {
                return;
            }
            let Some(entry) = self.to_disk.pop_front() else { return };
            self.to_disk_bytes -= entry.cost();
            self.push_front_share(entry);
        }
    }

    /// Messages to write now, about `bytes`; None if there are none or a write is in progress.
    pub(super) fn begin_write(&mut self, bytes: usize) -> Option<Vec<Entry>> {
        if self.writing > 0 || self.to_disk.is_empty() {
            return None;
        }
        let mut sum = 0;
        let batch = self.to_disk.iter().take_while(|entry| {
            let fits = sum < bytes;
            sum += entry.wire;
            fits
        });
        let batch: Vec<Entry> = batch.cloned().collect();
        self.writing = batch.len();
        Some(batch)
    }

    /// Ends a write of `written` bytes; None: it failed and the messages stay.
    pub(super) fn end_write(&mut self, written: Option<u64>) {
        let count = std::mem::take(&mut self.writing);
        let Some(bytes) = written else { return };
        for entry in self.to_disk.drain(..count) {
            self.to_disk_bytes -= entry.cost();
        }
        self.disk_messages += count;
        self.disk_bytes += bytes;
    }

    /// Bytes to read ahead from disk; None for nothing. The front is refilled once half of its
    /// share is free.
    pub(super) fn begin_read(&mut self, shares: Shares) -> Option<usize> {
        if self.reading || self.disk_messages == 0 || self.front_bytes > shares.front / 2 {
            return None;
        }
        self.reading = true;
        Some(shares.front - self.front_bytes)
    }

    /// Ends a read of these messages, `bytes` on disk; empty if it failed.
    pub(super) fn end_read(&mut self, entries: Vec<Entry>, bytes: u64) {
        self.reading = false;
        self.disk_messages -= entries.len();
        self.disk_bytes -= bytes;
        entries.into_iter().for_each(|entry| self.push_front_share(entry));
    }

    /// Resets the jobs in progress after the spill thread was lost.
    pub(super) fn abandon_disk_work(&mut self) {
        self.writing = 0;
        self.reading = false;
    }

    /// True if there is something to write or read.
    pub(super) fn wants_disk(&self, shares: Shares) -> bool {
        let write = self.writing == 0 && !self.to_disk.is_empty();
        let read = !self.reading && self.disk_messages > 0 && self.front_bytes <= shares.front / 2;
        write || read
    }
}
