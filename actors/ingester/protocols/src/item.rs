//! Items of streams.

use std::borrow::Cow;

use bytes::Bytes;
pub use orchestrator_ingester_zmtp::Parts;

/// One item of a stream: the parts of one message, unchanged. Cloning copies no frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Type by which workers choose their parser, e.g. `STINS` (CONTRACT IP04).
    pub typ: Cow<'static, str>,
    /// The parts, in order.
    pub frames: Parts,
    /// Frame number given by the source, counted from 0 in each series. None for protocols without
    /// numbers and for the messages that start and end a series. Number of the event if the source
    /// numbers events.
    pub number: Option<u64>,
}

impl Item {
    /// Sum of the parts' lengths, bytes.
    pub fn bytes(&self) -> usize {
        self.frames.iter().map(Bytes::len).sum()
    }
}
