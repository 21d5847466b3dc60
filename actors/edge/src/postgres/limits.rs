//! Limits on the messages of a server, checked by their headers without copying.
//!
//! The driver buffers whole messages and answers, and accepts any announced length.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::limited_stream::{FrameLimit, LimitError};

/// Maximum length of a message that is not a row, in bytes: errors, notices, descriptions of columns.
const MESSAGE_MAX: u32 = 64 << 10;
/// Maximum size of unsolicited messages during one request, or one wait for a notification, in bytes:
/// notices, notifications, changed parameters.
pub(super) const UNASKED_MAX: u64 = 1 << 20;

/// Length of a header in bytes: the type, and the length, which includes itself.
const HEADER: usize = 5;
const LENGTH: u32 = 4;

/// Violation of a limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Excess {
    /// The length is invalid or exceeds the limit of its type.
    #[error("the server announces {} of {length} bytes: 4 to {max} are accepted", name(*tag))]
    Length {
        /// Type of the message.
        tag: u8,
        /// Announced length.
        length: i32,
        /// Longest length of this type.
        max: u32,
    },
    /// The type of message belongs to no answer to this program's requests.
    #[error("the server sends {}, which was not asked for", name(*.0))]
    Type(u8),
    /// Too many bytes of unsolicited messages.
    #[error("the server sends more than {UNASKED_MAX} bytes unasked, last {}", name(*.0))]
    Unasked(u8),
    /// The answer to a request is too long.
    #[error("the answer is longer than {0} bytes: ask for less")]
    Answer(u64),
}

/// Bytes that the server may still send. The connection spends them; each request, and each wait for a
/// notification, renews them.
#[derive(Debug)]
pub(super) struct Budget {
    row_max: u32,
    answer_max: u64,
    answer: AtomicU64,
    unasked: AtomicU64,
}

impl Budget {
    /// A spent budget for rows of up to `row_max` bytes and answers of up to `answer_max` bytes.
    pub(super) fn new(row_max: u32, answer_max: u64) -> Arc<Self> {
        Arc::new(Self { row_max, answer_max, answer: AtomicU64::new(0), unasked: AtomicU64::new(0) })
    }

    pub(super) fn renew(&self) {
        self.answer.store(self.answer_max, Relaxed);
        self.unasked.store(UNASKED_MAX, Relaxed);
    }

    fn spend(of: &AtomicU64, bytes: u64) -> Option<()> {
        // One task renews and spends, so no atomic exchange is needed.
        of.store(of.load(Relaxed).checked_sub(bytes)?, Relaxed);
        Some(())
    }
}

/// Limits of one connection, with the position in its stream of messages.
#[derive(Debug)]
pub(super) struct ServerLimit {
    budget: Arc<Budget>,
    header: [u8; HEADER],
    /// Number of header bytes read.
    seen: usize,
    /// Number of bytes left in the message.
    rest: usize,
}

impl ServerLimit {
    /// The connection spends from `budget`.
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, header: [0; HEADER], seen: 0, rest: 0 }
    }

    /// Checks the next `bytes` of the stream.
    ///
    /// # Errors
    /// A header announces more than a limit allows. The rest of the stream is unusable.
    fn follow(&mut self, mut bytes: &[u8]) -> Result<(), Excess> {
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
                self.rest = accept(tag, i32::from_be_bytes(length), &self.budget)?;
                self.seen = 0;
            }
        }
    }
}

impl FrameLimit for ServerLimit {
    fn received(&mut self, bytes: &mut [u8]) -> Result<usize, LimitError> {
        self.follow(bytes)?;
        Ok(bytes.len())
    }
}

/// Number of bytes after the header of an accepted message.
fn accept(tag: u8, length: i32, budget: &Budget) -> Result<usize, Excess> {
    let max = match tag {
        b'D' => budget.row_max,
        _ if name_of(tag).is_some() => MESSAGE_MAX,
        _ => return Err(Excess::Type(tag)),
    };
    let within = u32::try_from(length).ok().filter(|length| (LENGTH..=max).contains(length));
    let within = within.ok_or(Excess::Length { tag, length, max })?;
    let bytes = u64::from(within) + 1;
    match tag {
        b'A' | b'N' | b'S' => Budget::spend(&budget.unasked, bytes).ok_or(Excess::Unasked(tag))?,
        _ => Budget::spend(&budget.answer, bytes).ok_or(Excess::Answer(budget.answer_max))?,
    }
    Ok((within - LENGTH) as usize)
}

/// None for messages that do not answer this program's requests.
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
