//! What one connection is writing: small frames gathered in a buffer, large ones where they are.

use std::{collections::VecDeque, io::IoSlice};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::queue::{Body, Entry};
use crate::zmtp::FrameHeader;

/// From this length on a frame is written from where it is. Below, a copy is cheaper than an entry in a list for the kernel.
pub(super) const SHARED_FROM: usize = 8 * 1024;

/// No more is gathered for one system call, bytes.
pub(super) const BATCH_BYTES: usize = 256 * 1024;

/// Entries of one vectored write. The kernel takes 1,024; more than this is not faster.
pub(super) const SLICES: usize = 64;

/// Messages under way to the kernel.
#[derive(Debug, Default)]
pub(super) struct Staging {
    small: BytesMut,
    chunks: VecDeque<Bytes>,
    /// Where each message ends, counted over all that was ever staged, and what is staged and written so far.
    ends: VecDeque<u64>,
    staged: u64,
    written: u64,
}

impl Staging {
    pub(super) fn is_empty(&self) -> bool {
        self.staged == self.written
    }

    /// Whether another message may join the batch.
    pub(super) fn has_room(&self) -> bool {
        self.staged - self.written < BATCH_BYTES as u64 && self.chunks.len() < SLICES
    }

    /// Adds a message. Call [`Staging::close`] after the last one.
    pub(super) fn add(&mut self, entry: &Entry) {
        match &entry.body {
            Body::Wire(wire) => self.put(wire),
            Body::Shared(message) => {
                let mut left = message.frames.len();
                self.small.put_slice(&FrameHeader::message(message.header.len(), left > 0));
                self.put(&message.header);
                for frame in &message.frames {
                    left -= 1;
                    self.small.put_slice(&FrameHeader::message(frame.len(), left > 0));
                    self.put(frame);
                }
            }
        }
        self.staged += entry.wire as u64;
        self.ends.push_back(self.staged);
    }

    /// Adds bytes that are no message's. Call [`Staging::close`] after the last ones.
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        self.small.put_slice(bytes);
        self.staged += bytes.len() as u64;
    }

    fn put(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARED_FROM {
            self.small.put_slice(bytes);
        } else {
            self.close();
            self.chunks.push_back(bytes.clone());
        }
    }

    /// Makes what was gathered ready to be written.
    pub(super) fn close(&mut self) {
        if !self.small.is_empty() {
            self.chunks.push_back(self.small.split().freeze());
        }
    }

    /// Fills `slices` for one vectored write and gives how many.
    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES]) -> usize {
        let chunks = self.chunks.iter().filter(|chunk| !chunk.is_empty());
        slices.iter_mut().zip(chunks).map(|(slice, chunk)| *slice = IoSlice::new(chunk)).count()
    }

    /// `bytes` were written; gives how many messages are out now.
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
        let before = self.ends.len();
        while self.ends.front().is_some_and(|&end| end <= self.written) {
            self.ends.pop_front();
        }
        before - self.ends.len()
    }
}
