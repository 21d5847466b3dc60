//! Frames and messages: decoder, and headers for writing.

use std::ops::Deref;

use bytes::{Buf, BufMut, Bytes, BytesMut, buf::Limit};

/// Longest command, bytes.
pub(crate) const COMMAND_BYTES_MAX: usize = 64 * 1024;

use crate::{Parts, ZmtpError, buffers::Buffers};

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Free space of a block below which it is not read into, bytes.
const WORTH_A_READ: usize = 4096;

/// Limits of a peer's messages. A header over a limit is an error before memory is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Longest frame, bytes.
    pub frame_max: usize,
    /// Longest message (all parts), bytes.
    pub message_max: usize,
    /// Most parts of a message.
    pub parts_max: usize,
}

/// A decoded message or command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A whole message: its parts in order, at least one.
    Message(Parts),
    /// Body of a command frame, for [`Command::decode`](crate::Command::decode).
    Command(Bytes),
}

/// Header of a frame with `len` bytes.
#[derive(Debug, Clone, Copy)]
pub struct FrameHeader {
    bytes: [u8; 9],
    len: u8,
}

impl FrameHeader {
    /// Header of a message's part; `more` parts follow.
    pub fn message(len: usize, more: bool) -> Self {
        Self::new(len, if more { MORE } else { 0 })
    }

    /// Header of a command.
    pub fn command(len: usize) -> Self {
        Self::new(len, COMMAND)
    }

    fn new(len: usize, flags: u8) -> Self {
        let mut bytes = [0; 9];
        if let Ok(short) = u8::try_from(len) {
            bytes[..2].copy_from_slice(&[flags, short]);
            return Self { bytes, len: 2 };
        }
        bytes[0] = flags | LONG;
        bytes[1..].copy_from_slice(&(len as u64).to_be_bytes());
        Self { bytes, len: 9 }
    }
}

impl Deref for FrameHeader {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Appends a whole message to `out`, copying its parts.
pub fn encode_message(parts: &[Bytes], out: &mut impl BufMut) {
    for (index, part) in parts.iter().enumerate() {
        out.put_slice(&FrameHeader::message(part.len(), index + 1 < parts.len()));
        out.put_slice(part);
    }
}

#[derive(Debug, Clone, Copy)]
struct Header {
    flags: u8,
    len: usize,
}

/// Decoder of messages. Read into [`Decoder::space`], then call [`Decoder::decode`] until it returns
/// None.
///
/// Small frames are slices of their read block: they are not copied, but keep the block in memory.
/// A long frame that is not yet complete gets its own buffer, into which `space` then reads
/// directly.
#[derive(Debug)]
pub struct Decoder {
    limits: FrameLimits,
    /// Messages are allowed; false during the handshake.
    open: bool,
    block_bytes: usize,
    block: BytesMut,
    /// Header of the current frame, already removed from the block.
    header: Option<Header>,
    /// Body of the current long frame.
    body: Option<Vec<u8>>,
    buffers: Buffers,
    parts: Parts,
    bytes: usize,
}

impl Decoder {
    /// Creates a decoder that reads blocks of `block_bytes`. Nothing is reserved before the first
    /// read.
    pub fn new(limits: FrameLimits, block_bytes: usize) -> Self {
        Self {
            limits,
            open: true,
            block_bytes: block_bytes.max(64),
            block: BytesMut::new(),
            header: None,
            body: None,
            buffers: Buffers::default(),
            parts: Parts::new(),
            bytes: 0,
        }
    }

    /// Like [`Decoder::new`], but accepts only commands until [`Decoder::open`], to bound the
    /// memory during the handshake.
    pub fn for_handshake(limits: FrameLimits, block_bytes: usize) -> Self {
        Self { open: false, ..Self::new(limits, block_bytes) }
    }

    /// Allows messages after the handshake.
    pub fn open(&mut self) {
        self.open = true;
    }

    /// True between two messages, with no byte of the next one buffered.
    pub fn is_idle(&self) -> bool {
        self.header.is_none() && self.block.is_empty() && self.parts.is_empty()
    }

    /// Missing bytes of the current frame; None between frames and inside a header.
    pub fn missing(&self) -> Option<usize> {
        let header = self.header?;
        Some(header.len - self.body.as_ref().map_or(self.block.len(), Vec::len))
    }

    /// Buffer for the next read. Never empty after [`Decoder::decode`] has returned None.
    pub fn space(&mut self) -> Limit<&mut (dyn BufMut + Send)> {
        let missing = self.missing().unwrap_or(0);
        if let Some(body) = &mut self.body {
            return (body as &mut (dyn BufMut + Send)).limit(missing);
        }
        let wanted = missing.max(WORTH_A_READ.min(self.block_bytes));
        if self.block.capacity() - self.block.len() < wanted {
            self.block.reserve(wanted.max(self.block_bytes));
        }
        let free = self.block.capacity() - self.block.len();
        (&mut self.block as &mut (dyn BufMut + Send)).limit(free)
    }

    /// Next whole message or command; None if more bytes are needed.
    ///
    /// # Errors
    /// The peer violates ZMTP or the limits. The connection cannot continue.
    pub fn decode(&mut self) -> Result<Option<Incoming>, ZmtpError> {
        loop {
            let header = match self.header {
                Some(header) => header,
                None => match self.take_header()? {
                    Some(header) => header,
                    None => return Ok(None),
                },
            };
            let Some(frame) = self.take_body(header)? else { return Ok(None) };
            self.header = None;
            if header.flags & COMMAND != 0 {
                return Ok(Some(Incoming::Command(frame)));
            }
            self.bytes += frame.len();
            self.parts.push(frame);
            if header.flags & MORE == 0 {
                self.bytes = 0;
                return Ok(Some(Incoming::Message(std::mem::take(&mut self.parts))));
            }
        }
    }

    fn take_header(&mut self) -> Result<Option<Header>, ZmtpError> {
        let Some(&flags) = self.block.first() else { return Ok(None) };
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(ZmtpError::Malformed("a frame has reserved flags"));
        }
        if flags & COMMAND != 0 && flags & MORE != 0 {
            return Err(ZmtpError::Malformed("a command says that more follows"));
        }
        let (announced, size) = if flags & LONG == 0 {
            let Some(&short) = self.block.get(1) else { return Ok(None) };
            (u64::from(short), 2)
        } else {
            let Some(long) = self.block.get(1..9) else { return Ok(None) };
            (long.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)), 9)
        };
        let len = self.check(flags, announced)?;
        self.block.advance(size);
        let header = Header { flags, len };
        self.header = Some(header);
        Ok(Some(header))
    }

    /// Checks the flags and the announced length of a frame, before memory for it is reserved.
    ///
    /// # Errors
    /// The frame or its message is longer than the limit, or the flags are invalid.
    fn check(&self, flags: u8, announced: u64) -> Result<usize, ZmtpError> {
        let command = flags & COMMAND != 0;
        let limit = if command { COMMAND_BYTES_MAX } else { self.limits.frame_max };
        if !command && !self.open {
            return Err(ZmtpError::TooEarly);
        }
        let too_long = ZmtpError::FrameTooLong { bytes: announced, limit: limit as u64 };
        let len = usize::try_from(announced).ok().filter(|&len| len <= limit).ok_or(too_long)?;
        if command {
            return Ok(len);
        }
        let bytes = self.bytes.saturating_add(len);
        if bytes > self.limits.message_max {
            let limit = self.limits.message_max as u64;
            return Err(ZmtpError::MessageTooLong { bytes: bytes as u64, limit });
        }
        if self.parts.len() >= self.limits.parts_max {
            return Err(ZmtpError::TooManyParts(self.limits.parts_max));
        }
        Ok(len)
    }

    fn take_body(&mut self, header: Header) -> Result<Option<Bytes>, ZmtpError> {
        if let Some(body) = self.body.take_if(|body| body.len() == header.len) {
            return Ok(Some(self.buffers.lend(body)));
        }
        if self.body.is_some() {
            return Ok(None);
        }
        if self.block.len() >= header.len {
            return Ok(Some(self.block.split_to(header.len).freeze()));
        }
        // A short frame stays in the block.
        if header.len > self.block_bytes / 4 {
            let mut body = self.buffers.take(header.len).map_err(|_| ZmtpError::NoMemory(header.len))?;
            body.extend_from_slice(&self.block);
            self.block.clear();
            self.body = Some(body);
        }
        Ok(None)
    }

    /// Waits until all references to the last long frame are dropped.
    pub async fn last_is_released(&self) {
        self.buffers.last_returned().await;
    }

    /// Bytes reserved for incoming data.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> usize {
        self.block.capacity() + self.body.as_ref().map_or(0, Vec::capacity)
    }
}
