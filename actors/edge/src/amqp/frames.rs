//! Limits on frames from a broker.
//!
//! The client library accepts messages of any size and number, and recurses into nested header tables.
//! [`FrameTracker`] follows the frames, checks the limits, and flattens deep tables in place.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use orchestrator_observe::{GaugeGuard, Metric};

use super::nesting::{flatten, flatten_content};

/// Largest body of a message, in bytes: RabbitMQ's default.
pub(super) const BODY_MAX: u64 = 128 << 20;
/// Most bytes of messages that wait to be read, including [`MESSAGE_COST`] for each.
pub(super) const UNREAD_BYTES_MAX: u64 = 1 << 30;
/// Memory per message beside its body, in bytes.
const MESSAGE_COST: u64 = 512;
/// Most announced messages whose content has not begun: one for each channel.
const ANNOUNCED_MAX: u64 = 2_047;

/// Most frames of a handshake, including heartbeats; three to five are usual.
const HANDSHAKE_MAX: u64 = 100;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

/// Bytes before and after the payload of a frame.
const FRAME_HEAD: usize = 7;
const FRAME_END: usize = 1;

/// Class and method of `connection.start`, which contains a table of broker properties.
const START: [u8; 4] = [0, 10, 0, 10];
/// Methods that announce a message: `basic.return`, `basic.deliver`, `basic.get-ok`.
const ANNOUNCING: [[u8; 4]; 3] = [[0, 60, 0, 50], [0, 60, 0, 60], [0, 60, 0, 71]];

/// Limit that the broker exceeds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LimitError {
    /// Unknown frame type: the peer is no AMQP broker.
    #[error("the broker sends a frame of type {0}: is it an AMQP 0-9-1 broker?")]
    Type(u8),
    /// Frame larger than negotiated.
    #[error("the broker announces a frame of {size} bytes: {max} were negotiated")]
    Frame {
        /// Size of the payload, in bytes.
        size: u32,
        /// Largest allowed size, in bytes.
        max: u32,
    },
    /// Message too large.
    #[error(
        "the broker announces a message of {0} bytes: the limit is {BODY_MAX}, remove the message from its queue"
    )]
    Body(u64),
    /// More unread messages than the prefetch count.
    #[error("the broker sends more than the {0} messages allowed without acknowledgement")]
    Messages(u64),
    /// Too many bytes of unread messages.
    #[error(
        "messages of more than {UNREAD_BYTES_MAX} bytes wait to be read: lower prefetch, or the rows of a message"
    )]
    UnreadBytes,
    /// Too many frames during the handshake.
    #[error("the broker sends more than {HANDSHAKE_MAX} frames and does not end the handshake")]
    Handshake,
    /// Too many deliveries without content.
    #[error("the broker announces more than {ANNOUNCED_MAX} messages without content")]
    Announced,
}

/// Received messages that the consumer has not read yet, shared by connection and consumer.
#[derive(Debug)]
pub(super) struct UnreadDeliveries {
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Most messages; 0 if unlimited.
    max: u64,
    /// Gauge of the bytes, in which a message stays until its consumer drops its share.
    held: Option<Metric>,
}

impl UnreadDeliveries {
    pub(super) fn new(max: u64, held: Option<Metric>) -> Arc<Self> {
        Arc::new(Self { messages: AtomicU64::new(0), bytes: AtomicU64::new(0), max, held })
    }

    fn received(&self, body: u64) -> Result<(), LimitError> {
        if self.max == 0 {
            return Ok(());
        }
        let bytes = body + MESSAGE_COST;
        if self.messages.fetch_add(1, Relaxed) >= self.max {
            return Err(LimitError::Messages(self.max));
        }
        self.held.iter().for_each(|held| held.add(bytes));
        match self.bytes.fetch_add(bytes, Relaxed) + bytes {
            UNREAD_BYTES_MAX.. => Err(LimitError::UnreadBytes),
            _ => Ok(()),
        }
    }

    /// Records that a message with a body of `body` bytes was read. Returns its share in the gauge.
    pub(super) fn read(&self, body: usize) -> Option<GaugeGuard> {
        let bytes = body as u64 + MESSAGE_COST;
        // Not below zero: a message may be recorded twice.
        let _ = self.messages.fetch_update(Relaxed, Relaxed, |messages| messages.checked_sub(1));
        let unread = self.bytes.fetch_update(Relaxed, Relaxed, |unread| Some(unread.saturating_sub(bytes)));
        let unread = unread.unwrap_or_else(|unread| unread);
        self.held.as_ref().map(|held| held.adopt(bytes.min(unread)))
    }
}

impl Drop for UnreadDeliveries {
    fn drop(&mut self) {
        // Unread messages end with the connection.
        drop(self.held.as_ref().map(|held| held.adopt(*self.bytes.get_mut())));
    }
}

/// Position in a stream of frames.
#[derive(Debug)]
pub(super) struct FrameTracker {
    unread: Arc<UnreadDeliveries>,
    frame_max: u32,
    /// Remaining bytes of a body frame.
    rest: usize,
    announced: u64,
    /// Frames of the handshake.
    handshake: u64,
}

impl FrameTracker {
    pub(super) fn new(frame_max: u32, unread: Arc<UnreadDeliveries>) -> Self {
        Self { unread, frame_max, rest: 0, announced: 0, handshake: 0 }
    }

    /// Checks the next `bytes` of the stream, and returns the number of bytes to pass on. The others begin a
    /// frame that is needed whole, and must come first in the next call. `established` is set once the
    /// handshake is over.
    ///
    /// # Errors
    /// The broker exceeds a limit; the stream is unusable.
    pub(super) fn track(&mut self, bytes: &mut [u8], established: bool) -> Result<usize, LimitError> {
        let mut at = 0;
        loop {
            let passed = self.rest.min(bytes.len() - at);
            at += passed;
            self.rest -= passed;
            let Some((kind, size)) = self.head(&bytes[at..])? else { return Ok(at) };
            let whole = FRAME_HEAD + size + FRAME_END;
            if !established && (matches!(kind, BODY | HEARTBEAT) || bytes.len() - at >= whole) {
                self.handshake += 1;
                if self.handshake > HANDSHAKE_MAX {
                    return Err(LimitError::Handshake);
                }
            }
            if matches!(kind, BODY | HEARTBEAT) {
                self.rest = whole;
                continue;
            }
            let Some(frame) = bytes[at..].get_mut(..whole) else { return Ok(at) };
            let payload = &mut frame[FRAME_HEAD..whole - FRAME_END];
            if kind == METHOD { self.method(payload) } else { self.header(payload) }?;
            at += whole;
        }
    }

    /// Type and payload size of the frame at the start of `bytes`; None if its head is incomplete.
    fn head(&self, bytes: &[u8]) -> Result<Option<(u8, usize)>, LimitError> {
        let Some([kind, _, _, size @ ..]) = bytes.first_chunk::<FRAME_HEAD>() else { return Ok(None) };
        if !matches!(*kind, METHOD | HEADER | BODY | HEARTBEAT) {
            return Err(LimitError::Type(*kind));
        }
        let (size, max) = (u32::from_be_bytes(*size), self.frame_max - (FRAME_HEAD + FRAME_END) as u32);
        if size > max {
            return Err(LimitError::Frame { size, max });
        }
        Ok(Some((*kind, size as usize)))
    }

    fn method(&mut self, payload: &mut [u8]) -> Result<(), LimitError> {
        let Some((method, arguments)) = payload.split_first_chunk_mut::<4>() else { return Ok(()) };
        if ANNOUNCING.contains(method) {
            self.announced += 1;
            return if self.announced > ANNOUNCED_MAX { Err(LimitError::Announced) } else { Ok(()) };
        }
        // Skips the version (2 bytes) and the length of the table.
        if *method == START
            && let Some(properties) = arguments.get_mut(6..)
        {
            flatten(properties);
        }
        Ok(())
    }

    fn header(&mut self, payload: &mut [u8]) -> Result<(), LimitError> {
        self.announced = self.announced.saturating_sub(1);
        let size = payload.get(4..12).and_then(|size| size.try_into().ok());
        // The client library reports a shorter header.
        let Some(size) = size.map(u64::from_be_bytes) else { return Ok(()) };
        if size > BODY_MAX {
            return Err(LimitError::Body(size));
        }
        flatten_content(payload);
        self.unread.received(size)
    }
}

#[cfg(test)]
mod tests;
