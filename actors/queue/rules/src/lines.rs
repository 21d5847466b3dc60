//! Splits fetcher files into lines and rows (CONTRACT QC18, QC19).
//!
//! [`LineSplitter`] accepts a file in pieces of any size and returns rows. Cuts inside a line, a
//! multi-byte character or `\r\n` do not change the result. It does no I/O. Of a long line it keeps
//! little and returns the position, so that the caller can read the line again.

mod long_line;
mod skip;

use self::skip::{KEPT_BYTES_MAX, is_space};
pub use self::{
    long_line::LongLine,
    skip::{LINE_BYTES_MAX, SkipReason},
};
use crate::protocol::ATTR_PATH_BYTES_MAX;

/// Maximum number of skipped lines listed in one [`FeedResult`]; all are counted.
const SKIPS_LISTED: usize = 8;

/// Lines between two reports of progress.
const PROGRESS_LINES: u64 = 4_096;

/// A line that gives no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedLine {
    /// Line number in the file, from 1.
    pub line: u64,
    /// Reason for the skip.
    pub reason: SkipReason,
}

/// Result of feeding one piece of a file.
#[derive(Debug, Default)]
pub struct FeedResult {
    /// A long line that ends in this piece, before all of `rows`. The caller reads its text again
    /// and calls [`FeedResult::add_long`].
    pub long: Option<LongLine>,
    /// Attribute path and payload of each row, in file order.
    pub rows: Vec<(String, String)>,
    /// Length of all texts of the rows, in bytes.
    pub row_bytes: usize,
    /// The first skipped lines of the piece.
    pub skips: Vec<SkippedLine>,
    /// Number of all skipped lines, listed or not.
    pub skipped: u64,
}

/// Splits a stream of bytes into rows.
#[derive(Debug, Default)]
pub struct LineSplitter {
    /// Beginning of a line whose end was not fed yet.
    tail: Vec<u8>,
    /// Set in place of `tail` if the line is too long to be kept.
    long_line: Option<LongLine>,
    /// True if the last line ended with `\r`; a following `\n` belongs to it.
    after_cr: bool,
    lines: u64,
    /// Number of bytes fed, without those discarded.
    position: u64,
}

impl LineSplitter {
    /// Feeds the next bytes of the file. Calls `progress` every 4,096 lines.
    pub fn feed(&mut self, bytes: &[u8], progress: &dyn Fn()) -> FeedResult {
        let mut fed = FeedResult::default();
        let mut start = 0;
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            start = usize::from(bytes[0] == b'\n');
        }
        let first = start;
        let mut ends = memchr::memchr2_iter(b'\n', b'\r', &bytes[first..]).map(|at| at + first).peekable();
        while let Some(end) = ends.next() {
            self.end_line(&bytes[start..end], start, &mut fed);
            if self.lines.is_multiple_of(PROGRESS_LINES) {
                progress();
            }
            start = end + 1;
            if bytes[end] == b'\r' {
                if bytes.get(start) == Some(&b'\n') {
                    ends.next();
                    start += 1;
                }
                self.after_cr = start == end + 1 && start == bytes.len();
            }
        }
        self.keep(&bytes[start..], start);
        self.position += bytes.len() as u64;
        fed
    }

    /// Discards the line without an end and returns its length in bytes. A reader calls it when the
    /// file is complete (CONTRACT QC22), and may feed those bytes again later.
    pub fn discard_tail(&mut self) -> u64 {
        let tail = std::mem::take(&mut self.tail).len() as u64;
        let discarded = self.long_line.take().map_or(tail, |line| line.bytes());
        self.position -= discarded;
        discarded
    }

    /// `bytes` begin at `at` in the current piece.
    fn keep(&mut self, bytes: &[u8], at: usize) {
        match &mut self.long_line {
            Some(line) => line.extend(bytes),
            None if self.tail.len() + bytes.len() > KEPT_BYTES_MAX => {
                let tail = std::mem::take(&mut self.tail);
                let from = self.position + at as u64 - tail.len() as u64;
                self.long_line = Some(LongLine::begin(from, &tail, bytes));
            }
            None => self.tail.extend_from_slice(bytes),
        }
    }

    fn end_line(&mut self, rest: &[u8], at: usize, fed: &mut FeedResult) {
        self.lines += 1;
        if self.tail.is_empty() && self.long_line.is_none() {
            return fed.add(rest, self.lines);
        }
        self.keep(rest, at);
        if let Some(line) = self.long_line.take() {
            match line.skip_reason() {
                Some(reason) => fed.skip(SkippedLine { line: self.lines, reason }),
                None => fed.long = Some(line.numbered(self.lines)),
            }
            return;
        }
        let mut tail = std::mem::take(&mut self.tail);
        fed.add(&tail, self.lines);
        tail.clear();
        self.tail = tail;
    }
}

impl FeedResult {
    /// Adds the text of [`FeedResult::long`]. The payload stays in the memory of `text`
    /// (CONTRACT QR16).
    pub fn add_long(&mut self, line: &LongLine, text: Vec<u8>) {
        let row = String::from_utf8(text).map_err(|_| SkipReason::NotUtf8).and_then(|mut text| {
            let (attr_path, payload) = split(&text)?;
            let attr_path = attr_path.to_owned();
            let start = payload.as_ptr().addr() - text.as_ptr().addr();
            text.truncate(start + payload.len());
            text.drain(..start);
            Ok((attr_path, text))
        });
        match row {
            Ok((attr_path, payload)) => {
                self.row_bytes += attr_path.len() + payload.len();
                self.rows.insert(0, (attr_path, payload));
            }
            Err(reason) => {
                self.skipped += 1;
                self.skips.insert(0, SkippedLine { line: line.number(), reason });
                self.skips.truncate(SKIPS_LISTED);
            }
        }
    }

    fn add(&mut self, line: &[u8], number: u64) {
        let row = std::str::from_utf8(line).map_err(|_| SkipReason::NotUtf8).and_then(split);
        match row {
            Ok((attr_path, payload)) => {
                self.row_bytes += attr_path.len() + payload.len();
                self.rows.push((attr_path.to_owned(), payload.to_owned()));
            }
            Err(reason) => self.skip(SkippedLine { line: number, reason }),
        }
    }

    fn skip(&mut self, skip: SkippedLine) {
        self.skipped += 1;
        if self.skips.len() < SKIPS_LISTED {
            self.skips.push(skip);
        }
    }
}

/// Strips surrounding white space and splits the line at the first U+0020.
fn split(line: &str) -> Result<(&str, &str), SkipReason> {
    let line = line.trim_matches(is_space);
    let (attr_path, payload) = line.split_once(' ').map_or((line, None), |(path, rest)| (path, Some(rest)));
    if attr_path.len() > ATTR_PATH_BYTES_MAX {
        return Err(SkipReason::AttrPathTooLong { bytes: attr_path.len() as u64 });
    }
    Ok((attr_path, payload.ok_or(SkipReason::NoSpace)?))
}

#[cfg(test)]
mod tests;
