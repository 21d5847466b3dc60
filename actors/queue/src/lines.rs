//! The lines of fetcher files (contract: lines).
//!
//! [`LineSplitter`] is fed with whatever pieces a file is read in and gives back rows, so that no cut (inside a line, a
//! multi-byte character, or between `\r` and `\n`) shows. It does no I/O and does not know where the bytes come from.

mod row_batch;

pub use row_batch::RowBatch;

/// How much text one [`RowBatch`] holds, in bytes; a longer line is alone in its batch.
pub const BATCH_TEXT_BYTES: usize = 4 << 20;

/// A line longer than this, in bytes, is skipped: SQLite could not store it anyway.
pub const LINE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// How many skipped lines one [`Fed`] names; the rest is only counted.
const SKIPS_NAMED: usize = 8;

/// Why a line gives no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// Nothing to tell an attribute path from its payload.
    #[error("there is no space: write ATTR_PATH PAYLOAD")]
    NoSpace,
    /// [R04-R06]
    #[error("it is not utf-8: write utf-8")]
    NotUtf8,
    /// Over [`LINE_BYTES_MAX`].
    #[error("it is too long: keep lines under 512 MiB")]
    TooLong,
}

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
    /// The last line ended with `\r`: a `\n` that comes next belongs to it.
    after_cr: bool,
    /// The current line is over the limit and its bytes are dropped.
    discarding: bool,
    lines: u64,
}

impl LineSplitter {
    /// Takes the next bytes of the file.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Fed {
        let mut fed = Fed::default();
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        let mut start = 0;
        let mut ends = memchr::memchr2_iter(b'\n', b'\r', bytes).peekable();
        while let Some(end) = ends.next() {
            self.end_line(&bytes[start..end], &mut fed);
            start = end + 1;
            if bytes[end] == b'\r' {
                if bytes.get(start) == Some(&b'\n') {
                    ends.next();
                    start += 1;
                }
                self.after_cr = start == end + 1 && start == bytes.len();
            }
        }
        self.keep(&bytes[start..]);
        fed
    }

    /// How many bytes are kept back because their line has no end yet. A reader that will never feed the rest gives
    /// them up (contract: a tail without line end is dropped when the file completes) and may later go on before them.
    pub fn give_up_tail(&mut self) -> usize {
        std::mem::take(&mut self.tail).len()
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.discarding {
            return;
        }
        if self.tail.len() + bytes.len() > LINE_BYTES_MAX {
            self.discarding = true;
            self.tail = Vec::new();
        } else {
            self.tail.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, rest: &[u8], fed: &mut Fed) {
        self.lines += 1;
        if !self.tail.is_empty() || self.discarding {
            self.keep(rest);
            return self.end_kept_line(fed);
        }
        match std::str::from_utf8(rest) {
            Ok(line) => self.row(line, fed),
            Err(_) => self.skip(SkipReason::NotUtf8, fed),
        }
    }

    fn end_kept_line(&mut self, fed: &mut Fed) {
        if std::mem::take(&mut self.discarding) {
            return self.skip(SkipReason::TooLong, fed);
        }
        if self.tail.len() <= BATCH_TEXT_BYTES {
            let mut tail = std::mem::take(&mut self.tail);
            match std::str::from_utf8(&tail) {
                Ok(line) => self.row(line, fed),
                Err(_) => self.skip(SkipReason::NotUtf8, fed),
            }
            tail.clear();
            self.tail = tail;
            return;
        }
        // A huge line: its bytes become the batch themselves, never copied [R16].
        match String::from_utf8(std::mem::take(&mut self.tail)) {
            Ok(line) => match split(&line) {
                Some((attr_path, payload)) => {
                    let start = payload.as_ptr().addr() - line.as_ptr().addr();
                    let attr_path = attr_path.to_owned();
                    let end = start + payload.len();
                    fed.batches.push(RowBatch::huge(attr_path, line, start..end));
                }
                None => self.skip(SkipReason::NoSpace, fed),
            },
            Err(_) => self.skip(SkipReason::NotUtf8, fed),
        }
    }

    fn row(&self, line: &str, fed: &mut Fed) {
        let Some((attr_path, payload)) = split(line) else {
            return self.skip(SkipReason::NoSpace, fed);
        };
        match fed.batches.last_mut() {
            Some(batch) if batch.has_room_for(attr_path, payload) => batch.push(attr_path, payload),
            _ => {
                let mut batch = RowBatch::default();
                batch.push(attr_path, payload);
                fed.batches.push(batch);
            }
        }
    }

    fn skip(&self, reason: SkipReason, fed: &mut Fed) {
        fed.skipped += 1;
        if fed.skips.len() < SKIPS_NAMED {
            fed.skips.push(Skip { line: self.lines, reason });
        }
    }
}

/// Strips white space from both ends and splits at the first U+0020.
fn split(line: &str) -> Option<(&str, &str)> {
    line.trim_matches(is_space).split_once(' ')
}

/// White space as Python's `str.isspace` has it: Rust's lacks the four separators U+001C to U+001F (C19).
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests;
