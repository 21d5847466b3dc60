//! A message to workers.

use bytes::Bytes;

use crate::{item::Parts, zmtp::FrameHeader};

/// One message to workers. Shared by the queues of all that get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its first part, the JSON header (CONTRACT IP04).
    pub header: Bytes,
    /// The other parts: the frames of all streams, in the header's order.
    pub frames: Parts,
}

impl Message {
    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> usize {
        wire_bytes(std::iter::once(self.header.len()).chain(self.frames.iter().map(Bytes::len)))
    }

    pub(super) fn parts(&self) -> Vec<Bytes> {
        std::iter::once(&self.header).chain(&self.frames).cloned().collect()
    }
}

/// Bytes of `parts` lengths on the wire.
fn wire_bytes(parts: impl Iterator<Item = usize>) -> usize {
    parts.map(|len| FrameHeader::message(len, false).len() + len).sum()
}
