//! A line too long to be kept in memory while its end is looked for.

use std::ops::Range;

use super::skip::{KEPT_BYTES_MAX, LINE_BYTES_MAX, SkipReason, is_space};
use crate::protocol::ATTR_PATH_BYTES_MAX;

/// Where such a line is, and what is known of it without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongLine {
    from: u64,
    bytes: u64,
    attr_path: AttrPath,
    number: u64,
}

/// Length of the attribute path, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttrPath {
    /// It has not begun in what was kept, or what was kept is not UTF-8: reading the line again will show it.
    Unknown,
    /// So long already, without an end.
    Growing(u64),
    Ended(u64),
}

impl LongLine {
    /// A line that begins at `from`, with the bytes that were kept of it and those that follow.
    pub(super) fn begin(from: u64, kept: &[u8], bytes: &[u8]) -> Self {
        let head = if kept.is_empty() { &bytes[..bytes.len().min(KEPT_BYTES_MAX)] } else { kept };
        let text = head.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let begun = text.len() - text.trim_start_matches(is_space).len();
        let mut line = Self { from, bytes: 0, attr_path: AttrPath::Unknown, number: 0 };
        if begun < text.len() {
            line.attr_path = AttrPath::Growing(0);
        }
        let (before, kept) = kept.split_at(begun.min(kept.len()));
        let (more_before, bytes) = bytes.split_at(begun - before.len());
        line.bytes = (before.len() + more_before.len()) as u64;
        line.extend(kept);
        line.extend(bytes);
        line
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let AttrPath::Growing(length) = self.attr_path {
            self.attr_path = match memchr::memchr(b' ', bytes) {
                Some(at) => AttrPath::Ended(length + at as u64),
                None => AttrPath::Growing(length + bytes.len() as u64),
            };
        }
    }

    pub(super) fn numbered(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// Why the line gives no row, as far as that is known without its text.
    pub(super) fn refusal(&self) -> Option<SkipReason> {
        match self.attr_path {
            AttrPath::Growing(bytes) | AttrPath::Ended(bytes) if bytes > ATTR_PATH_BYTES_MAX as u64 => {
                Some(SkipReason::AttrPathTooLong { bytes })
            }
            AttrPath::Growing(_) => Some(SkipReason::NoSpace),
            _ if self.bytes > LINE_BYTES_MAX as u64 => Some(SkipReason::LineTooLong { bytes: self.bytes }),
            _ => None,
        }
    }

    /// Where its text is in the file, without its end; not more than [`LINE_BYTES_MAX`].
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.from..self.from + self.bytes
    }

    /// Length so far, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of the line, counted from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}
