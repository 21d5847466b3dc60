//! Messages to workers.

use std::time::Instant;

use bytes::Bytes;
use orchestrator_ingester_zmtp::FrameHeader;

use crate::item::Parts;

/// A message, shared by the queues of all its workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// Number of the event.
    pub event: u64,
    /// First part, the JSON header (CONTRACT IP04).
    pub header: Bytes,
    /// Other parts: the frames of all streams in the header's order.
    pub frames: Parts,
    /// Time when the last of its items was received.
    pub received: Instant,
}

impl Message {
    /// Encoded length, bytes.
    pub(crate) fn wire_bytes(&self) -> usize {
        wire_bytes(std::iter::once(self.header.len()).chain(self.frames.iter().map(Bytes::len)))
    }

    pub(super) fn parts(&self) -> Vec<Bytes> {
        std::iter::once(&self.header).chain(&self.frames).cloned().collect()
    }
}

/// Encoded length of parts with these lengths, bytes.
fn wire_bytes(parts: impl Iterator<Item = usize>) -> usize {
    parts.map(|len| FrameHeader::message(len, false).len() + len).sum()
}
