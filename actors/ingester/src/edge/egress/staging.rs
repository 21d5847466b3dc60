//! Data that one connection is writing: small frames copied into a buffer, large ones by reference.

use std::{collections::VecDeque, io::IoSlice, ops::Range};

use bytes::{Buf, Bytes};
use orchestrator_ingester_zmtp::FrameHeader;

use super::queue::{Body, Entry};
/// Shortest frame written by reference, bytes. Below, a copy is cheaper than an I/O vector entry.
pub(super) const SHARED_FROM: usize = 8 * 1024;

/// Most bytes staged for one system call.
pub(super) const BATCH_BYTES: usize = 256 * 1024;

/// I/O vectors of one write. The kernel takes 1,024, but more than this is not faster.
pub(super) const SLICES: usize = 64;

/// Most bytes reserved in advance. From 128 KiB on the allocator may ask the kernel each time.
const RESERVED: usize = 120 * 1024;

/// Staged messages.
#[derive(Debug, Default)]
pub(super) struct Staging {
    /// Buffer of small frames, kept until all is written.
    small: Vec<u8>,
    /// Bytes of `small` that are part of a chunk.
    closed: usize,
    chunks: VecDeque<Chunk>,
    /// End of each message in the stream of bytes, and the bytes staged and written so far.
    ends: VecDeque<u64>,
    staged: u64,
    written: u64,
}

#[derive(Debug)]
enum Chunk {
    /// Range of `small`.
    Small(Range<usize>),
    Shared(Bytes),
}

impl Chunk {
    fn len(&self) -> usize {
        match self {
            Self::Small(range) => range.len(),
            Self::Shared(bytes) => bytes.len(),
        }
    }

    fn advance(&mut self, bytes: usize) {
        match self {
            Self::Small(range) => range.start += bytes,
            Self::Shared(shared) => shared.advance(bytes),
        }
    }
}

impl Staging {
    pub(super) fn is_empty(&self) -> bool {
        self.staged == self.written
    }

    /// True if another message may join the batch.
    pub(super) fn has_room(&self) -> bool {
        self.staged - self.written < BATCH_BYTES as u64 && self.chunks.len() < SLICES
    }

    /// Reserves memory for about `bytes`.
    pub(super) fn expect(&mut self, bytes: usize) {
        self.small.reserve(bytes.min(RESERVED));
    }

    /// Adds a message. Call [`Staging::close`] after the last one.
    pub(super) fn add(&mut self, entry: &Entry) {
        match &entry.body {
            Body::Wire(wire) => self.put(wire),
            Body::Shared(message) => {
                let mut left = message.frames.len();
                self.small.extend_from_slice(&FrameHeader::message(message.header.len(), left > 0));
                self.put(&message.header);
                for frame in &message.frames {
                    left -= 1;
                    self.small.extend_from_slice(&FrameHeader::message(frame.len(), left > 0));
                    self.put(frame);
                }
            }
        }
        self.staged += entry.wire as u64;
        self.ends.push_back(self.staged);
    }

    /// Adds bytes that belong to no message. Call [`Staging::close`] after the last ones.
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        self.small.extend_from_slice(bytes);
        self.staged += bytes.len() as u64;
    }

    fn put(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARED_FROM {
            self.small.extend_from_slice(bytes);
        } else {
            self.close();
            self.chunks.push_back(Chunk::Shared(bytes.clone()));
        }
    }

    /// Completes the current chunk of small frames.
    pub(super) fn close(&mut self) {
        if self.closed < self.small.len() {
            self.chunks.push_back(Chunk::Small(self.closed..self.small.len()));
            self.closed = self.small.len();
        }
    }

    /// Fills `slices` for one vectored write and returns their number.
    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let chunks = self.chunks.iter().filter(|chunk| chunk.len() > 0).map(|chunk| match chunk {
            Chunk::Small(range) => &self.small[range.clone()],
            Chunk::Shared(bytes) => bytes,
        });
        slices.iter_mut().zip(chunks).map(|(slice, chunk)| *slice = IoSlice::new(chunk)).count()
    }

    /// Records `bytes` as written and returns the number of completed messages.
    pub(super) fn advance(&mut self, mut bytes: usize) -> usize {
        self.written += bytes as u64;
        while let Some(chunk) = self.chunks.front_mut() {
            if bytes < chunk.len() {
                chunk.advance(bytes);
                break;
            }
            bytes -= chunk.len();
            self.chunks.pop_front();
        }
        if self.chunks.is_empty() {
            // An idle connection keeps no buffer.
            (self.small, self.closed) = (Vec::new(), 0);
        }
        let before = self.ends.len();
        while self.ends.front().is_some_and(|&end| end <= self.written) {
            self.ends.pop_front();
        }
        before - self.ends.len()
    }
}
