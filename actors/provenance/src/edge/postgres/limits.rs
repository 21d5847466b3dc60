//! Limits of what a server may send: the messages of a connection are followed by their headers, without a copy of their bytes.
//!
//! The driver buffers a message until it is whole and an answer until it is complete, and takes whatever length is announced.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use orchestrator_edge::FrameLimit;

/// Longest row of an answer, bytes: all columns of ours are an identifier, a date, a url or a path.
pub(super) const ROW_MAX: u32 = 1 << 20;
/// Longest message of any other type, bytes: errors, notices, descriptions of columns.
pub(super) const MESSAGE_MAX: u32 = 64 << 10;
/// Most bytes of the answers to one request.
pub(super) const ANSWER_MAX: u64 = 64 << 20;
/// Most bytes that come unasked during one request: notices, notifications, changed parameters.
pub(super) const UNASKED_MAX: u64 = 1 << 20;

/// Bytes of a header: the type, and the length, which counts itself.
const HEADER: usize = 5;
const LENGTH: u32 = 4;

/// Breach of a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Excess {
    /// The length is none, or beyond that of its type.
    #[error("the server announces {} of {length} bytes: 4 to {max} are accepted", name(*tag))]
    Length {
        /// Type of the message.
        tag: u8,
        /// Announced length.
        length: i32,
        /// Longest length of this type.
        max: u32,
    },
    /// A type of message that is no part of any answer to our requests.
    #[error("the server sends {}, which was not asked for", name(*.0))]
    Type(u8),
    /// Too much that was not asked for.
    #[error("the server sends more than {UNASKED_MAX} bytes unasked, last {}", name(*.0))]
    Unasked(u8),
    /// The answer to a request.
    #[error("the answer is longer than {ANSWER_MAX} bytes: ask for less")]
    Answer,
}

/// Bytes that the server may still send. Shared by a connection, which spends them, and whoever asks, who renews them.
#[derive(Debug, Default)]
pub(super) struct Budget {
    answer: AtomicU64,
    unasked: AtomicU64,
}

impl Budget {
    /// Begins a request.
    pub(super) fn renew(&self) {
        self.answer.store(ANSWER_MAX, Relaxed);
        self.unasked.store(UNASKED_MAX, Relaxed);
    }

    fn spend(of: &AtomicU64, bytes: u64) -> Option<()> {
        // One task renews and spends: no exchange is needed.
        of.store(of.load(Relaxed).checked_sub(bytes)?, Relaxed);
        Some(())
    }
}

/// Place in a stream of messages.
#[derive(Debug, Default)]
pub(super) struct Follower {
    header: [u8; HEADER],
    /// Bytes of the header that were seen.
    seen: usize,
    /// Bytes of the message that are still to come.
    rest: usize,
}

impl Follower {
    /// Follows the next `bytes` of the stream.
    ///
    /// # Errors
    /// A header in them announces more than a limit allows. The stream is of no use from there.
    pub(super) fn follow(&mut self, mut bytes: &[u8], budget: &Budget) -> Result<(), Excess> {
        loop {
            let skipped = self.rest.min(bytes.len());
            self.rest -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return Ok(());
            }
            let more = (HEADER - self.seen).min(bytes.len());
            self.header[self.seen..self.seen + more].copy_from_slice(&bytes[..more]);
            self.seen += more;
            bytes = &bytes[more..];
            if self.seen == HEADER {
                let [tag, length @ ..] = self.header;
                self.rest = accept(tag, i32::from_be_bytes(length), budget)?;
                self.seen = 0;
            }
        }
    }
}

/// Limit of one connection.
#[derive(Debug)]
pub(super) struct ServerLimit {
    follower: Follower,
    budget: Arc<Budget>,
}

impl ServerLimit {
    /// A connection that spends from `budget`.
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Self { follower: Follower::default(), budget }
    }
}

impl FrameLimit for ServerLimit {
    fn received(&mut self, bytes: &mut [u8]) -> Result<usize, orchestrator_edge::LimitError> {
        self.follower.follow(bytes, &self.budget)?;
        Ok(bytes.len())
    }
}

/// Bytes behind the header of a message that is within the limits.
fn accept(tag: u8, length: i32, budget: &Budget) -> Result<usize, Excess> {
    let max = match tag {
        b'D' => ROW_MAX,
        _ if name_of(tag).is_some() => MESSAGE_MAX,
        _ => return Err(Excess::Type(tag)),
    };
    let within = u32::try_from(length).ok().filter(|length| (LENGTH..=max).contains(length));
    let within = within.ok_or(Excess::Length { tag, length, max })?;
    let bytes = u64::from(within) + 1;
    match tag {
        b'A' | b'N' | b'S' => Budget::spend(&budget.unasked, bytes).ok_or(Excess::Unasked(tag))?,
        _ => Budget::spend(&budget.answer, bytes).ok_or(Excess::Answer)?,
    }
    Ok((within - LENGTH) as usize)
}

/// Types of messages that answer what this crate asks.
fn name_of(tag: u8) -> Option<&'static str> {
    Some(match tag {
        b'1' => "ParseComplete",
        b'2' => "BindComplete",
        b'3' => "CloseComplete",
        b'A' => "NotificationResponse",
        b'C' => "CommandComplete",
        b'D' => "DataRow",
        b'E' => "ErrorResponse",
        b'I' => "EmptyQueryResponse",
        b'K' => "BackendKeyData",
        b'N' => "NoticeResponse",
        b'R' => "Authentication",
        b'S' => "ParameterStatus",
        b'T' => "RowDescription",
        b'Z' => "ReadyForQuery",
        b'n' => "NoData",
        b's' => "PortalSuspended",
        b't' => "ParameterDescription",
        _ => return None,
    })
}

fn name(tag: u8) -> String {
    let name = name_of(tag).unwrap_or("a message of another protocol");
    format!("{name} ('{}')", char::from(tag).escape_default())
}

#[cfg(test)]
mod tests;
