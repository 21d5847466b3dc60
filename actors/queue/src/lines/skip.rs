//! Reasons to skip a line.

use crate::protocol::ATTR_PATH_BYTES_MAX;

/// Longest line, in bytes without its end: a payload of 64 MiB with its attribute path. A longer one is skipped.
pub const LINE_BYTES_MAX: usize = (64 << 20) + (64 << 10);

/// Most that is kept of a line whose end was not fed yet, in bytes; more than the longest attribute path.
pub(super) const KEPT_BYTES_MAX: usize = 128 << 10;

/// Why a line gives no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// Nothing to tell an attribute path from its payload.
    #[error("there is no space: write ATTR_PATH PAYLOAD")]
    NoSpace,
    /// (CONTRACT QR04 to QR06)
    #[error("it is not utf-8: write utf-8")]
    NotUtf8,
    /// Over [`ATTR_PATH_BYTES_MAX`].
    #[error(
        "its attribute path has {bytes} bytes: keep it within {ATTR_PATH_BYTES_MAX}, or no DONE could report it"
    )]
    AttrPathTooLong {
        /// Length of the attribute path.
        bytes: u64,
    },
    /// Over [`LINE_BYTES_MAX`].
    #[error("it has {bytes} bytes: keep lines within {LINE_BYTES_MAX}")]
    LineTooLong {
        /// Length of the line.
        bytes: u64,
    },
}

/// White space as Python's `str.isspace` has it: Rust's lacks the four separators U+001C to U+001F (CONTRACT QC19).
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}
