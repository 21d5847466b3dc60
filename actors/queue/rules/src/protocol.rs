//! Parser of worker requests and encoder of replies (CONTRACT QP01 to QP14).
//!
//! | request | meaning |
//! | --- | --- |
//! | `READY\n` | asks for a job |
//! | `DONE <attr_path> <exit_code>\n` | reports the end of a job and asks for the next |
//!
//! | reply | meaning |
//! | --- | --- |
//! | `JOB <attr_path> <payload>\n` | a job |
//! | `NOJOBS\n` | no job is available; ask again later |
//!
//! The parser accepts input in pieces of any size and does no I/O.

use crate::storage::Job;

/// Maximum length of a request, in bytes without its newline (CONTRACT QP09).
pub(crate) const REQUEST_BYTES_MAX: usize = 65_536;

/// Maximum length of an attribute path, in bytes: the longest that fits a `DONE` line with any exit
/// code (CONTRACT QP13).
pub const ATTR_PATH_BYTES_MAX: usize = REQUEST_BYTES_MAX - "DONE ".len() - " -9223372036854775808".len();

/// Initial capacity of the buffer, in bytes; sufficient for nearly all requests.
const ROOM_BYTES: usize = 512;

/// Capacity, in bytes, above which an empty buffer is freed.
const KEPT_BYTES: usize = 8 * 1024;

/// A request line of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Asks for a job.
    Ready,
    /// Reports the end of a job and asks for the next.
    Done {
        /// Attribute path of the job; may be empty.
        attr_path: String,
        /// Exit code of the job.
        exit_code: i64,
    },
}

/// Error that closes a connection without a reply. Later lines of the connection are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The line is neither `READY` nor `DONE` (CONTRACT QP03, QP04).
    #[error("not a request: send READY or DONE ATTR_PATH EXIT_CODE, ended by a newline")]
    NotARequest,
    /// The attribute path is not valid UTF-8 (CONTRACT QP05).
    #[error("the attribute path is not utf-8: send utf-8")]
    AttrNotUtf8,
    /// The exit code is missing or not a 64-bit number (CONTRACT QP05).
    #[error("the exit code is not a 64-bit number: send DONE ATTR_PATH EXIT_CODE")]
    BadExitCode,
    /// The line is longer than `REQUEST_BYTES_MAX` (CONTRACT QP09).
    #[error("the line is longer than 65536 bytes: send shorter lines")]
    TooLong,
}

/// Splits a connection's bytes into requests.
#[derive(Debug, Default)]
pub struct RequestParser {
    buffer: Vec<u8>,
    /// Index of the first unread byte.
    start: usize,
    /// Index up to which no newline was found.
    searched: usize,
}

impl RequestParser {
    /// Buffer with spare capacity, to append received bytes to.
    pub fn space(&mut self) -> &mut Vec<u8> {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > KEPT_BYTES {
                self.buffer = Vec::new();
            }
        } else {
            self.buffer.drain(..self.start);
        }
        self.searched -= self.start;
        self.start = 0;
        let room = if self.buffer.len() < ROOM_BYTES { ROOM_BYTES } else { KEPT_BYTES };
        if self.buffer.capacity() - self.buffer.len() < ROOM_BYTES / 2 {
            self.buffer.reserve(room);
        }
        &mut self.buffer
    }

    /// None until the line of the request is complete.
    pub fn next_request(&mut self) -> Result<Option<Request>, ProtocolError> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]).map(|at| self.searched + at);
        let end = found.unwrap_or(self.buffer.len());
        if end - self.start > REQUEST_BYTES_MAX {
            return Err(ProtocolError::TooLong);
        }
        self.searched = end;
        if found.is_none() {
            return Ok(None);
        }
        let request = parse(&self.buffer[self.start..end]);
        self.start = end + 1;
        self.searched = self.start;
        request.map(Some)
    }

    /// Parses the remaining bytes after the peer's half close. A last DONE counts without its
    /// newline (CONTRACT QP06).
    pub fn last_request(&mut self) -> Result<Option<Request>, ProtocolError> {
        let rest = &self.buffer[self.start..];
        if rest.is_empty() {
            return Ok(None);
        }
        let request = if rest.starts_with(b"DONE ") { parse(rest) } else { Err(ProtocolError::NotARequest) };
        self.start = self.buffer.len();
        self.searched = self.start;
        request.map(Some)
    }
}

/// Parses a line without its newline.
fn parse(line: &[u8]) -> Result<Request, ProtocolError> {
    if line == b"READY" {
        return Ok(Request::Ready);
    }
    let rest = line.strip_prefix(b"DONE ").ok_or(ProtocolError::NotARequest)?;
    let mut fields = rest.split(|&byte| byte == b' ');
    let attr_path =
        std::str::from_utf8(fields.next().unwrap_or_default()).map_err(|_| ProtocolError::AttrNotUtf8)?;
    let exit_code = fields.next().and_then(parse_int).ok_or(ProtocolError::BadExitCode)?;
    Ok(Request::Done { attr_path: attr_path.to_owned(), exit_code })
}

/// Parses an integer like Python's `int()` on bytes, within 64 bits: surrounding white space, a
/// sign, leading zeros and `_` between digits are allowed.
fn parse_int(text: &[u8]) -> Option<i64> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r');
    let from = text.iter().position(|byte| !is_space(byte))?;
    let to = text.iter().rposition(|byte| !is_space(byte))?;
    let text = &text[from..=to];
    let (sign, digits) = match text.first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let mut value = 0_i64;
    let mut after_digit = false;
    for &byte in digits {
        match byte {
            b'0'..=b'9' => {
                value = value.checked_mul(10)?.checked_add(sign * i64::from(byte - b'0'))?;
                after_digit = true;
            }
            b'_' if after_digit => after_digit = false,
            _ => return None,
        }
    }
    after_digit.then_some(value)
}

/// Appends the beginning of the reply: `JOB ATTR_PATH ` without payload and newline, or all of
/// `NOJOBS`.
pub fn encode_head(job: Option<&Job>, out: &mut Vec<u8>) {
    match job {
        None => out.extend_from_slice(b"NOJOBS\n"),
        Some(job) => {
            out.reserve(job.attr_path.len() + 6);
            out.extend_from_slice(b"JOB ");
            out.extend_from_slice(job.attr_path.as_bytes());
            out.push(b' ');
        }
    }
}

/// Appends the whole reply.
pub fn encode_reply(job: Option<&Job>, out: &mut Vec<u8>) {
    encode_head(job, out);
    if let Some(job) = job {
        out.reserve(job.payload.len() + 1);
        out.extend_from_slice(job.payload.as_bytes());
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests;
