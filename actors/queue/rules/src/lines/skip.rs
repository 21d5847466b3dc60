//! Reasons to skip a line.

use crate::protocol::ATTR_PATH_BYTES_MAX;

/// Maximum length of a line, in bytes without its end: a payload of 64 MiB with its attribute path.
/// A longer line is skipped.
pub const LINE_BYTES_MAX: usize = (64 << 20) + (64 << 10);

/// Maximum length kept of a line without an end, in bytes; more than the longest attribute path.
pub(super) const KEPT_BYTES_MAX: usize = 128 << 10;

/// Reason why a line gives no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// There is no space between attribute path and payload.
    #[error("there is no space: write ATTR_PATH PAYLOAD")]
    NoSpace,
    /// The line is not valid UTF-8 (CONTRACT QR04 to QR06).
    #[error("it is not utf-8: write utf-8")]
    NotUtf8,
    /// The attribute path is longer than [`ATTR_PATH_BYTES_MAX`].
    #[error(
        "its attribute path has {bytes} bytes: keep it within {ATTR_PATH_BYTES_MAX}, or no DONE could report it"
    )]
    AttrPathTooLong {
        /// Length of the path.
        bytes: u64,
    },
    /// The line is longer than [`LINE_BYTES_MAX`].
    #[error("it has {bytes} bytes: keep lines within {LINE_BYTES_MAX}")]
    LineTooLong {
        /// Length of the line.
        bytes: u64,
    },
}

/// Returns true for white space of Python's `str.isspace`: Rust's, and the separators U+001C to
/// U+001F (CONTRACT QC19).
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}
