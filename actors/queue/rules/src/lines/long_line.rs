//! Lines that are too long to be kept in memory.

use std::ops::Range;

use super::skip::{KEPT_BYTES_MAX, LINE_BYTES_MAX, SkipReason, is_space};
use crate::protocol::ATTR_PATH_BYTES_MAX;

/// Position and properties of a long line, without its text.
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
    /// Unknown: the kept part is white space or not UTF-8. Reading the line again decides.
    Unknown,
    /// Length so far; no space was found yet.
    Growing(u64),
    Ended(u64),
}

impl LongLine {
    /// Starts a line at `from` with its `kept` bytes and the `bytes` that follow them.
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

    /// Reason as far as it is known without the text.
    pub(super) fn skip_reason(&self) -> Option<SkipReason> {
        match self.attr_path {
            AttrPath::Growing(bytes) | AttrPath::Ended(bytes) if bytes > ATTR_PATH_BYTES_MAX as u64 => {
                Some(SkipReason::AttrPathTooLong { bytes })
            }
            AttrPath::Growing(_) => Some(SkipReason::NoSpace),
            _ if self.bytes > LINE_BYTES_MAX as u64 => Some(SkipReason::LineTooLong { bytes: self.bytes }),
            _ => None,
        }
    }

    /// Range without the line end; at most [`LINE_BYTES_MAX`].
    pub fn range(&self) -> Range<u64> {
        self.from..self.from + self.bytes
    }

    /// Length so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Line number, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}
