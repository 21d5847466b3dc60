//! Limits of what a broker may send: the frames of a connection are followed by their headers. The client library takes messages of
//! whatever size and number, and recurses into nested headers: those are flattened in place.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use super::nesting::{flatten, flatten_content};

/// Largest body of a message, bytes: RabbitMQ's own default.
pub(super) const BODY_MAX: u64 = 128 << 20;
/// Most bytes of messages that wait in a connection to be taken, with [`MESSAGE_COST`] for each.
pub(super) const WAITING_MAX: u64 = 1 << 30;
/// Memory that a message takes beside its body, bytes.
const MESSAGE_COST: u64 = 512;
/// Most messages that are announced and not begun: one for each channel is what the protocol allows.
const ANNOUNCED_MAX: u64 = 2_047;

/// Most frames of a handshake, heartbeats included; three to five are usual.
const HANDSHAKE_MAX: u64 = 100;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

/// Bytes before and behind the payload of a frame.
const BEFORE: usize = 7;
const BEHIND: usize = 1;

/// Class and method of `connection.start`, whose table has the broker's properties.
const START: [u8; 4] = [0, 10, 0, 10];
/// Methods that announce a message: `basic.return`, `basic.deliver`, `basic.get-ok`.
const ANNOUNCING: [[u8; 4]; 3] = [[0, 60, 0, 50], [0, 60, 0, 60], [0, 60, 0, 71]];

/// Breach of a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum LimitError {
    /// A frame of a type that does not exist: something else listens there.
    #[error("the broker sends a frame of type {0}: is it an AMQP 0-9-1 broker?")]
    Type(u8),
    /// A frame that is larger than was agreed upon.
    #[error("the broker announces a frame of {size} bytes: {max} were agreed upon")]
    Frame {
        /// Announced bytes of the payload.
        size: u32,
        /// The most.
        max: u32,
    },
    /// A message that is too large.
    #[error("the broker announces a message of {0} bytes: {BODY_MAX} are accepted, remove it from its queue")]
    Body(u64),
    /// More messages than may be in hand.
    #[error("the broker sends more than the {0} messages that may wait for their acknowledgement")]
    Messages(u64),
    /// More bytes than may wait.
    #[error(
        "messages of more than {WAITING_MAX} bytes wait to be taken: lower prefetch, or the rows of a message"
    )]
    Waiting,
    /// More frames than a handshake has.
    #[error("the broker sends more than {HANDSHAKE_MAX} frames and does not end the handshake")]
    Handshake,
    /// Deliveries without content.
    #[error("the broker announces more than {ANNOUNCED_MAX} messages and begins none")]
    Announced,
}

/// Messages that were received and not taken, shared by a connection and whoever takes them.
#[derive(Debug, Default)]
pub(super) struct UnreadDeliveries {
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Most messages; 0: whoever takes them does not tell.
    max: u64,
}

impl UnreadDeliveries {
    pub(super) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { max, ..Self::default() })
    }

    fn received(&self, body: u64) -> Result<(), LimitError> {
        if self.max == 0 {
            return Ok(());
        }
        let bytes = body + MESSAGE_COST;
        if self.messages.fetch_add(1, Relaxed) >= self.max {
            return Err(LimitError::Messages(self.max));
        }
        match self.bytes.fetch_add(bytes, Relaxed) + bytes {
            WAITING_MAX.. => Err(LimitError::Waiting),
            _ => Ok(()),
        }
    }

    /// Notes that a message with a body of `body` bytes was taken.
    pub(super) fn taken(&self, body: usize) {
        let bytes = body as u64 + MESSAGE_COST;
        // What was received before is at least what was taken.
        let _ = self.messages.fetch_update(Relaxed, Relaxed, |messages| messages.checked_sub(1));
        let _ = self.bytes.fetch_update(Relaxed, Relaxed, |waiting| Some(waiting.saturating_sub(bytes)));
    }
}

/// Place in a stream of frames.
#[derive(Debug)]
pub(super) struct Follower {
    unread: Arc<UnreadDeliveries>,
    frame_max: u32,
    /// Bytes of a body that are still to come.
    rest: usize,
    announced: u64,
    /// Frames of the handshake.
    handshake: u64,
}

impl Follower {
    pub(super) fn new(frame_max: u32, unread: Arc<UnreadDeliveries>) -> Self {
        Self { unread, frame_max, rest: 0, announced: 0, handshake: 0 }
    }

    /// Follows the next `bytes` of the stream, and returns how many of them may be handed on: all but the beginning of a frame that is
    /// looked into as a whole, which is to be the beginning of the next call's. `established`: the handshake is over.
    ///
    /// # Errors
    /// They break a limit. The stream is of no use from there.
    pub(super) fn follow(&mut self, bytes: &mut [u8], established: bool) -> Result<usize, LimitError> {
        let mut at = 0;
        loop {
            let passed = self.rest.min(bytes.len() - at);
            at += passed;
            self.rest -= passed;
            let Some((kind, size)) = self.head(&bytes[at..])? else { return Ok(at) };
            let whole = BEFORE + size + BEHIND;
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
            let payload = &mut frame[BEFORE..whole - BEHIND];
            if kind == METHOD { self.method(payload) } else { self.header(payload) }?;
            at += whole;
        }
    }

    /// Type and size of the frame that `bytes` begins; None if its head is not whole.
    fn head(&self, bytes: &[u8]) -> Result<Option<(u8, usize)>, LimitError> {
        let Some([kind, _, _, size @ ..]) = bytes.first_chunk::<BEFORE>() else { return Ok(None) };
        if !matches!(*kind, METHOD | HEADER | BODY | HEARTBEAT) {
            return Err(LimitError::Type(*kind));
        }
        let (size, max) = (u32::from_be_bytes(*size), self.frame_max - (BEFORE + BEHIND) as u32);
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
        // Two bytes of version and the length of the table.
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
        // The client says what is wrong with a shorter one.
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
