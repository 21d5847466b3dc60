//! Limits of what a broker may send: the frames of a connection are followed by their headers. The client library takes messages of
//! whatever size and number.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use super::nesting::{DEPTH_MAX, is_too_deep, is_too_deep_content};

/// Largest body of a message, bytes: RabbitMQ's own default.
pub(super) const BODY_MAX: u64 = 128 << 20;
/// Most bytes of messages that wait in a connection to be taken, with [`MESSAGE_COST`] for each.
pub(super) const WAITING_MAX: u64 = 1 << 30;
/// Memory that a message takes beside its body, bytes.
const MESSAGE_COST: u64 = 512;
/// Most messages that are announced and not begun: one for each channel is what the protocol allows.
const ANNOUNCED_MAX: u64 = 2_047;

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
pub(super) enum Excess {
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
    /// Headers that are nested too deep.
    #[error(
        "the broker sends headers that are nested more than {DEPTH_MAX} deep: remove the message from its queue"
    )]
    Depth,
    /// More messages than may be in hand.
    #[error("the broker sends more than the {0} messages that may wait for their acknowledgement")]
    Messages(u64),
    /// More bytes than may wait.
    #[error(
        "messages of more than {WAITING_MAX} bytes wait to be taken: lower prefetch, or the rows of a message"
    )]
    Waiting,
    /// Deliveries without content.
    #[error("the broker announces more than {ANNOUNCED_MAX} messages and begins none")]
    Announced,
}

/// Messages that were received and not taken, shared by a connection and whoever takes them.
#[derive(Debug, Default)]
pub(super) struct Inflow {
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Most messages; 0: whoever takes them does not tell.
    max: u64,
}

impl Inflow {
    pub(super) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { max, ..Self::default() })
    }

    fn received(&self, body: u64) -> Result<(), Excess> {
        if self.max == 0 {
            return Ok(());
        }
        let bytes = body + MESSAGE_COST;
        if self.messages.fetch_add(1, Relaxed) >= self.max {
            return Err(Excess::Messages(self.max));
        }
        match self.bytes.fetch_add(bytes, Relaxed) + bytes {
            WAITING_MAX.. => Err(Excess::Waiting),
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
    inflow: Arc<Inflow>,
    frame_max: u32,
    head: [u8; BEFORE],
    /// Bytes of the head that were seen.
    seen: usize,
    /// Bytes of the frame that are still to come.
    rest: usize,
    /// The payload so far, of frames that are looked into; bodies are not.
    payload: Vec<u8>,
    announced: u64,
}

impl Follower {
    pub(super) fn new(frame_max: u32, inflow: Arc<Inflow>) -> Self {
        let (head, payload) = ([0; BEFORE], Vec::new());
        Self { inflow, frame_max, head, seen: 0, rest: 0, payload, announced: 0 }
    }

    /// Follows the next `bytes` of the stream.
    ///
    /// # Errors
    /// They break a limit. The stream is of no use from there.
    pub(super) fn follow(&mut self, mut bytes: &[u8]) -> Result<(), Excess> {
        loop {
            let passed = self.rest.min(bytes.len());
            if passed > 0 {
                self.pass(&bytes[..passed])?;
                bytes = &bytes[passed..];
            }
            if bytes.is_empty() {
                return Ok(());
            }
            let more = (BEFORE - self.seen).min(bytes.len());
            self.head[self.seen..self.seen + more].copy_from_slice(&bytes[..more]);
            self.seen += more;
            bytes = &bytes[more..];
            if self.seen == BEFORE {
                self.begin()?;
            }
        }
    }

    fn begin(&mut self) -> Result<(), Excess> {
        let [kind, _, _, size @ ..] = self.head;
        if !matches!(kind, METHOD | HEADER | BODY | HEARTBEAT) {
            return Err(Excess::Type(kind));
        }
        let (size, max) = (u32::from_be_bytes(size), self.frame_max - (BEFORE + BEHIND) as u32);
        if size > max {
            return Err(Excess::Frame { size, max });
        }
        (self.seen, self.rest) = (0, size as usize + BEHIND);
        self.payload.clear();
        Ok(())
    }

    fn pass(&mut self, bytes: &[u8]) -> Result<(), Excess> {
        self.rest -= bytes.len();
        if matches!(self.head[0], BODY | HEARTBEAT) {
            return Ok(());
        }
        self.payload.extend_from_slice(bytes);
        if self.rest > 0 {
            return Ok(());
        }
        self.payload.truncate(self.payload.len() - BEHIND);
        match self.head[0] {
            METHOD => self.method(),
            _ => self.header(),
        }
    }

    fn method(&mut self) -> Result<(), Excess> {
        let Some((method, arguments)) = self.payload.split_first_chunk::<4>() else { return Ok(()) };
        if ANNOUNCING.contains(method) {
            self.announced += 1;
            return if self.announced > ANNOUNCED_MAX { Err(Excess::Announced) } else { Ok(()) };
        }
        // Two bytes of version and the length of the table.
        match (*method == START, arguments.get(6..)) {
            (true, Some(properties)) if is_too_deep(properties, true) => Err(Excess::Depth),
            _ => Ok(()),
        }
    }

    fn header(&mut self) -> Result<(), Excess> {
        self.announced = self.announced.saturating_sub(1);
        let size = self.payload.get(4..12).and_then(|size| size.try_into().ok());
        // The client says what is wrong with a shorter one.
        let Some(size) = size.map(u64::from_be_bytes) else { return Ok(()) };
        if size > BODY_MAX {
            return Err(Excess::Body(size));
        }
        if is_too_deep_content(&self.payload) {
            return Err(Excess::Depth);
        }
        self.inflow.received(size)
    }
}

#[cfg(test)]
mod tests;
