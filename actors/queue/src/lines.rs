//! The lines of fetcher files (CONTRACT QC18, QC19).
//!
//! [`LineSplitter`] is fed with whatever pieces a file is read in and gives back rows, so that no cut (inside a line, a
//! multi-byte character, or between `\r` and `\n`) shows. It does no I/O and does not know where the bytes come from. It
//! keeps little of a long line: it says where the line is once its end was fed, for the caller to read it again.

mod long_line;
mod row_batch;
mod skip;

use self::skip::{KEPT_BYTES_MAX, is_space};
pub use self::{
    long_line::LongLine,
    row_batch::{BATCH_TEXT_BYTES, RowBatch},
    skip::{LINE_BYTES_MAX, SkipReason},
};
use crate::protocol::ATTR_PATH_BYTES_MAX;

/// How many skipped lines one [`Fed`] names; the rest is only counted.
const SKIPS_NAMED: usize = 8;

/// A line that gives no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    /// Counted from 1 in the whole file.
    pub line: u64,
    /// Why.
    pub reason: SkipReason,
}

/// What one piece of a file gave.
#[derive(Debug, Default)]
pub struct Fed {
    /// A line whose end is in this piece and of which too little was kept, before all of `batches`. Read it again and call
    /// [`Fed::add_long`].
    pub long: Option<LongLine>,
    /// Rows in file order. No batch is empty.
    pub batches: Vec<RowBatch>,
    /// The first skipped lines.
    pub skips: Vec<Skip>,
    /// How many lines were skipped, named or not.
    pub skipped: u64,
}

/// Cuts a stream of bytes into rows.
#[derive(Debug, Default)]
pub struct LineSplitter {
    /// The beginning of a line whose end has not been seen.
    tail: Vec<u8>,
    /// In place of `tail`: the line is too long to be kept.
    measured: Option<LongLine>,
    /// The last line ended with `\r`: a `\n` that comes next belongs to it.
    after_cr: bool,
    lines: u64,
    /// Bytes fed so far, less those given up.
    position: u64,
}

impl LineSplitter {
    /// Takes the next bytes of the file.
    pub fn feed(&mut self, bytes: &[u8]) -> Fed {
        let mut fed = Fed::default();
        let mut start = 0;
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            start = usize::from(bytes[0] == b'\n');
        }
        let first = start;
        let mut ends = memchr::memchr2_iter(b'\n', b'\r', &bytes[first..]).map(|at| at + first).peekable();
        while let Some(end) = ends.next() {
            self.end_line(&bytes[start..end], start, &mut fed);
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

    /// How many bytes are kept back because their line has no end yet. A reader that will never feed the rest gives
    /// them up (CONTRACT QC22) and may later go on before them.
    pub fn give_up_tail(&mut self) -> u64 {
        let tail = std::mem::take(&mut self.tail).len() as u64;
        let given_up = self.measured.take().map_or(tail, |line| line.bytes());
        self.position -= given_up;
        given_up
    }

    /// Takes over `bytes`, the last ones so far of a line without an end; they begin at `at` in the piece that is fed.
    fn keep(&mut self, bytes: &[u8], at: usize) {
        match &mut self.measured {
            Some(line) => line.extend(bytes),
            None if self.tail.len() + bytes.len() > KEPT_BYTES_MAX => {
                let tail = std::mem::take(&mut self.tail);
                let from = self.position + at as u64 - tail.len() as u64;
                self.measured = Some(LongLine::begin(from, &tail, bytes));
            }
            None => self.tail.extend_from_slice(bytes),
        }
    }

    fn end_line(&mut self, rest: &[u8], at: usize, fed: &mut Fed) {
        self.lines += 1;
        if self.tail.is_empty() && self.measured.is_none() {
            return fed.add(rest, self.lines);
        }
        self.keep(rest, at);
        if let Some(line) = self.measured.take() {
            match line.refusal() {
                Some(reason) => fed.skip(Skip { line: self.lines, reason }),
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

impl Fed {
    /// The text of [`Fed::long`] was read again: it becomes the first batch itself, never copied (CONTRACT QR16).
    pub fn add_long(&mut self, line: &LongLine, text: Vec<u8>) {
        let row = String::from_utf8(text).map_err(|_| SkipReason::NotUtf8).and_then(|text| {
            let (attr_path, payload) = split(&text)?;
            let start = payload.as_ptr().addr() - text.as_ptr().addr();
            Ok(RowBatch::huge(attr_path.to_owned(), start..start + payload.len(), text))
        });
        match row {
            Ok(batch) => self.batches.insert(0, batch),
            Err(reason) => {
                self.skipped += 1;
                self.skips.insert(0, Skip { line: line.number(), reason });
                self.skips.truncate(SKIPS_NAMED);
            }
        }
    }

    fn add(&mut self, line: &[u8], number: u64) {
        let row = std::str::from_utf8(line).map_err(|_| SkipReason::NotUtf8).and_then(split);
        match row {
            Ok((attr_path, payload)) => match self.batches.last_mut() {
                Some(batch) if batch.has_room_for(attr_path, payload) => batch.push(attr_path, payload),
                _ => {
                    let mut batch = RowBatch::default();
                    batch.push(attr_path, payload);
                    self.batches.push(batch);
                }
            },
            Err(reason) => self.skip(Skip { line: number, reason }),
        }
    }

    fn skip(&mut self, skip: Skip) {
        self.skipped += 1;
        if self.skips.len() < SKIPS_NAMED {
            self.skips.push(skip);
        }
    }
}

/// Strips white space from both ends and splits at the first U+0020.
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
