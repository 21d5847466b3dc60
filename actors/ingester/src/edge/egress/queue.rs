//! What waits for one peer: in memory, on the way to disk, and on disk. Pure: no clock, no socket, no file.
//!
//! One order runs through all of it: `front` (memory), then the disk's records, then `to_disk`. A message may only join the front while
//! nothing is behind it.

use std::{collections::VecDeque, sync::Arc};

use bytes::{Bytes, BytesMut};

use super::message::Message;
use crate::zmtp::encode_message;

/// Memory that a message takes beside its bytes: its places in queues, and the allocations behind it.
const ENTRY_BYTES: usize = 128;

/// Bytes before each record on disk: its length and when it was given.
pub(super) const RECORD_HEAD: usize = 16;

/// What a message is kept as.
#[derive(Debug, Clone)]
pub(super) enum Body {
    /// As it was given, shared with the queues of other peers.
    Shared(Arc<Message>),
    /// All of its frames as they go out.
    Wire(Bytes),
}

/// One message in a queue.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) body: Body,
    /// Bytes on the wire.
    pub(super) wire: usize,
    /// When it was given, milliseconds after the egress was made.
    pub(super) at_ms: u64,
}

impl Entry {
    pub(super) fn new(message: Arc<Message>, at_ms: u64) -> Self {
        let wire = message.wire_bytes();
        Self { body: Body::Shared(message), wire, at_ms }
    }

    pub(super) fn of_wire(wire: Bytes, at_ms: u64) -> Self {
        Self { wire: wire.len(), body: Body::Wire(wire), at_ms }
    }

    /// Memory it stands for, bytes.
    pub(super) fn cost(&self) -> usize {
        self.wire + ENTRY_BYTES
    }

    /// A copy that pins no block: frames of up to `small` bytes are slices of larger blocks.
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
            Body::Shared(Arc::new(Message { header: message.header.clone(), frames }))
        } else {
            return self;
        };
        Self { body, ..self }
    }
}

/// Where a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Front,
    Disk,
    Nowhere,
}

/// How much memory each part of a queue may take, bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    pub(super) front: usize,
    pub(super) to_disk: usize,
}

impl Shares {
    /// Of a peer's budget one half is for what goes out next, the other for what is on its way to disk; without a disk all is the front's.
    pub(super) fn new(budget: usize, spills: bool) -> Self {
        if spills {
            Self { front: budget / 2, to_disk: budget - budget / 2 }
        } else {
            Self { front: budget, to_disk: 0 }
        }
    }
}

/// The queue of one peer.
#[derive(Debug, Default)]
pub(super) struct PeerQueue {
    front: VecDeque<Entry>,
    front_bytes: usize,
    /// So many at the front are in the hands of the present connection, written in part at the most.
    staged: usize,
    to_disk: VecDeque<Entry>,
    to_disk_bytes: usize,
    /// So many at the head of `to_disk` are being written.
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

    /// Memory in use, bytes.
    pub(super) fn memory(&self) -> usize {
        self.front_bytes + self.to_disk_bytes
    }

    /// Records on disk, bytes.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// When the oldest message was given, if it is known: one that is on disk is not looked up.
    pub(super) fn oldest_ms(&self) -> Option<u64> {
        self.front.front().or_else(|| self.to_disk.front()).map(|entry| entry.at_ms)
    }

    /// Nothing is behind the front.
    pub(super) fn is_direct(&self) -> bool {
        self.to_disk.is_empty() && self.disk_messages == 0
    }

    /// What waits for the disk takes so much there, bytes.
    pub(super) fn to_disk_record_bytes(&self) -> u64 {
        (self.to_disk_bytes - self.to_disk.len() * (ENTRY_BYTES - RECORD_HEAD)) as u64
    }

    /// Where a message that takes `cost` goes; `disk` tells whether the disk may take more. A message over a whole share is taken where
    /// nothing else is: it would never go out otherwise.
    pub(super) fn place(&self, cost: usize, shares: Shares, disk: bool) -> Place {
        let fits = |used: usize, share: usize| used == 0 || used.saturating_add(cost) <= share;
        if self.is_direct() && fits(self.front_bytes, shares.front) {
            Place::Front
        } else if disk && shares.to_disk > 0 && fits(self.to_disk_bytes, shares.to_disk) {
            Place::Disk
        } else {
            Place::Nowhere
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

    /// The next message that no connection has in hand.
    pub(super) fn stage(&mut self) -> Option<&Entry> {
        let entry = self.front.get(self.staged)?;
        self.staged += 1;
        Some(entry)
    }

    /// The present connection is gone: what it had in hand goes out again, whole.
    pub(super) fn unstage(&mut self) {
        self.staged = 0;
    }

    /// The first `count` messages went out.
    pub(super) fn sent(&mut self, count: usize) {
        for entry in self.front.drain(..count) {
            self.front_bytes -= entry.cost();
        }
        self.staged -= count;
    }

    /// Moves what never reached the disk to the front, where nothing is before it and it fits.
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

    /// Messages to be written now, up to about `bytes`; None if there are none or some are being written.
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

    /// What was being written is on disk, `bytes` in all; or nothing of it, if it failed.
    pub(super) fn end_write(&mut self, written: Option<u64>) {
        let count = std::mem::take(&mut self.writing);
        let Some(bytes) = written else { return };
        for entry in self.to_disk.drain(..count) {
            self.to_disk_bytes -= entry.cost();
        }
        self.disk_messages += count;
        self.disk_bytes += bytes;
    }

    /// How many bytes may be read ahead from the disk now; None for nothing. The front is filled again once half of its share is free.
    pub(super) fn begin_read(&mut self, shares: Shares) -> Option<usize> {
        if self.reading || self.disk_messages == 0 || self.front_bytes > shares.front / 2 {
            return None;
        }
        self.reading = true;
        Some(shares.front - self.front_bytes)
    }

    /// These messages were read back, which took `bytes` of records; or nothing, if that failed.
    pub(super) fn end_read(&mut self, entries: Vec<Entry>, bytes: u64) {
        self.reading = false;
        self.disk_messages -= entries.len();
        self.disk_bytes -= bytes;
        entries.into_iter().for_each(|entry| self.push_front_share(entry));
    }

    /// Nobody writes or reads any more: whoever did is gone.
    pub(super) fn abandon_disk_work(&mut self) {
        self.writing = 0;
        self.reading = false;
    }

    /// Whether there is anything to be written or read now.
    pub(super) fn wants_disk(&self, shares: Shares) -> bool {
        let write = self.writing == 0 && !self.to_disk.is_empty();
        let read = !self.reading && self.disk_messages > 0 && self.front_bytes <= shares.front / 2;
        write || read
    }
}
