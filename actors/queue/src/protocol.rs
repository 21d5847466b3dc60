//! Requests of workers and the replies to them (CONTRACT QP01 to QP14).
//!
//! | request | meaning |
//! | --- | --- |
//! | `READY\n` | give me a job |
//! | `DONE <attr_path> <exit_code>\n` | that job ended so; give me the next |
//!
//! | reply | meaning |
//! | --- | --- |
//! | `JOB <attr_path> <payload>\n` | work on this |
//! | `NOJOBS\n` | ask again later |
//!
//! A pure parser over whatever pieces the bytes arrive in. It knows no socket, and never sees a reply's fate.

use crate::storage::Job;

/// The longest request, in bytes without its newline (CONTRACT QP09).
pub const REQUEST_BYTES_MAX: usize = 65_536;

/// Longest attribute path that every `DONE` line can carry, in bytes: the exit code may have a sign and 19 digits (CONTRACT QP13).
pub const ATTR_PATH_BYTES_MAX: usize = REQUEST_BYTES_MAX - "DONE ".len() - " -9223372036854775808".len();

/// What a fresh parser makes room for, in bytes: nearly every request fits.
const ROOM_BYTES: usize = 512;

/// A larger buffer than this, in bytes, is given back as soon as it is empty.
const KEPT_BYTES: usize = 8 * 1024;

/// A line from a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Wants a job.
    Ready,
    /// Ended a job and wants the next.
    Done {
        /// What it worked on; may be empty.
        attr_path: String,
        /// How that ended.
        exit_code: i64,
    },
}

/// Why a connection is closed without a reply. Nothing after such a line is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// (CONTRACT QP03, QP04)
    #[error("not a request: send READY or DONE ATTR_PATH EXIT_CODE, ended by a newline")]
    NotARequest,
    /// (CONTRACT QP05)
    #[error("the attribute path is not utf-8: send utf-8")]
    AttrNotUtf8,
    /// (CONTRACT QP05)
    #[error("the exit code is no 64 bit number: send DONE ATTR_PATH EXIT_CODE")]
    BadExitCode,
    /// (CONTRACT QP09)
    #[error("the line is longer than 65536 bytes: send shorter lines")]
    TooLong,
}

/// Cuts a connection's bytes into requests.
#[derive(Debug, Default)]
pub struct RequestParser {
    buffer: Vec<u8>,
    /// Where the first unread byte is.
    start: usize,
    /// Up to where there is no newline.
    searched: usize,
}

impl RequestParser {
    /// Where to append what arrives; has spare capacity.
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

    /// The next whole line.
    ///
    /// # Errors
    /// [`ProtocolError`]: close the connection.
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

    /// Parses the peer's last bytes when no more will come: a last DONE counts without its newline (CONTRACT QP06).
    ///
    /// # Errors
    /// [`ProtocolError`]: close the connection.
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

/// Python's `int()` on bytes, within 64 bits: white space around, a sign, `_` between digits, leading zeros.
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

/// Appends the reply up to, and without, payload and newline. `NOJOBS` is whole.
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
