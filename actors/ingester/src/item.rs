//! What one event takes from one stream.

use std::borrow::Cow;

use bytes::Bytes;
use smallvec::SmallVec;

/// The parts of a message. Two, as an image mostly has, take no memory of their own: what one thread takes and another one gives
/// back makes each wait for the other.
pub type Parts = SmallVec<[Bytes; 2]>;

/// One item of a stream: the parts of one message, unchanged. Cloning it copies no frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The type that workers choose their parser by, e.g. `STINS` (CONTRACT IP04).
    pub typ: Cow<'static, str>,
    /// The parts, in order.
    pub frames: Parts,
    /// The number that the source gave the frame, counted from 0 in each series; None where the protocol has none, and for the messages that
    /// start and end a series.
    pub number: Option<u64>,
}

impl Item {
    /// Bytes of all parts.
    pub fn bytes(&self) -> usize {
        self.frames.iter().map(Bytes::len).sum()
    }
}
