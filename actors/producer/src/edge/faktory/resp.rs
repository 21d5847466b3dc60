//! Bounded, incremental decoder of Faktory replies, which are framed as in RESP (CONTRACT SE03).

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use orchestrator_text::sanitize_to;

/// Upper bound of a line, in bytes.
const LINE_MAX: usize = 16 * 1024;
/// Upper bound of a bulk reply, in bytes.
pub(super) const BULK_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// `+text`.
    Simple(String),
    /// `-CODE text`, including the code.
    Error(String),
    /// `$length`, followed by that number of bytes.
    Bulk(Bytes),
    /// `$-1`.
    Null,
}

const LINE_END: &str = "a line does not end with CR and LF: is this a Faktory server?";

/// Removes the first reply from `buffer`; `None` while it is incomplete. Lengths above [`BULK_MAX`] are
/// refused before memory is reserved.
///
/// # Errors
/// The bytes are no reply. The connection cannot be used any more.
pub(super) fn decode(buffer: &mut BytesMut) -> Result<Option<Reply>, String> {
    let Some(kind) = buffer.first().copied() else { return Ok(None) };
    if !b"+-$".contains(&kind) {
        return Err(format!("a reply begins with {:?}: is this a Faktory server?", char::from(kind)));
    }
    let window = &buffer[..buffer.len().min(LINE_MAX)];
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        if buffer.len() < LINE_MAX {
            return Ok(None);
        }
        return Err(format!("a line is longer than {LINE_MAX} bytes: is this a Faktory server?"));
    };
    let Some(line) = buffer[1..end].strip_suffix(b"\r") else { return Err(LINE_END.to_owned()) };
    let text = || String::from_utf8_lossy(line).into_owned();
    let reply = match kind {
        b'+' => Reply::Simple(text()),
        b'-' => Reply::Error(text()),
        _ if line == b"-1" => Reply::Null,
        _ => {
            let invalid = || {
                let length = excerpt(text());
                format!(
                    "a reply's length is {length:?}, more than {BULK_MAX} bytes or none: is this a Faktory server?"
                )
            };
            let length = length(line).ok_or_else(invalid)?;
            let whole = end + 1 + length + 2;
            if buffer.len() < whole {
                buffer.reserve(whole - buffer.len());
                return Ok(None);
            }
            if &buffer[whole - 2..whole] != b"\r\n" {
                return Err(LINE_END.to_owned());
            }
            buffer.advance(end + 1);
            let bulk = buffer.split_to(length).freeze();
            buffer.advance(2);
            return Ok(Some(Reply::Bulk(bulk)));
        }
    };
    buffer.advance(end + 1);
    Ok(Some(reply))
}

fn length(digits: &[u8]) -> Option<usize> {
    let number = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|c| c.is_ascii_digit()))?;
    number.parse().ok().filter(|length| *length <= BULK_MAX)
}

/// Upper bound of quoted text, in bytes.
const EXCERPT_MAX: usize = 200;

/// Text of the server, escaped and cut to 200 bytes.
pub(super) fn excerpt(text: impl AsRef<[u8]>) -> String {
    sanitize_to(text, EXCERPT_MAX)
}

impl fmt::Display for Reply {
    /// Writes the kind and the beginning of the reply.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "+{}", excerpt(text)),
            Self::Error(text) => write!(f, "-{}", excerpt(text)),
            Self::Bulk(bytes) => write!(f, "{} bytes, {}", bytes.len(), excerpt(bytes)),
            Self::Null => f.write_str("nothing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes `bytes`, received in pieces that end at `cuts`.
    fn decode_all(bytes: &[u8], cuts: &[usize]) -> Result<Vec<Reply>, String> {
        let (mut buffer, mut replies, mut from) = (BytesMut::new(), Vec::new(), 0);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        for cut in cuts {
            buffer.extend_from_slice(&bytes[from..cut]);
            from = cut;
            while let Some(reply) = decode(&mut buffer)? {
                replies.push(reply);
            }
        }
        Ok(replies)
    }

    fn reply() -> impl Strategy<Value = (Vec<u8>, Reply)> {
        let line = "[^\r\n]{0,40}";
        prop_oneof![
            line.prop_map(|text| (format!("+{text}\r\n").into_bytes(), Reply::Simple(text))),
            line.prop_map(|text| (format!("-{text}\r\n").into_bytes(), Reply::Error(text))),
            proptest::collection::vec(any::<u8>(), 0..300).prop_map(|bulk| {
                let mut bytes = format!("${}\r\n", bulk.len()).into_bytes();
                bytes.extend_from_slice(&bulk);
                bytes.extend_from_slice(b"\r\n");
                (bytes, Reply::Bulk(bulk.into()))
            }),
            Just((b"$-1\r\n".to_vec(), Reply::Null)),
        ]
    }

    proptest! {
        #[test]
        fn replies_are_decoded_from_pieces_of_any_size(
            replies in proptest::collection::vec(reply(), 0..8),
            cuts in proptest::collection::vec(any::<usize>(), 0..20),
        ) {
            let bytes: Vec<u8> = replies.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
            let wanted: Vec<Reply> = replies.into_iter().map(|(_, reply)| reply).collect();
            prop_assert_eq!(decode_all(&bytes, &cuts), Ok(wanted));
        }

        /// Random bytes cause no panic, and the result does not depend on the pieces.
        #[test]
        fn random_bytes_are_decoded_or_refused(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'$'), Just(b'\r'), Just(b'\n'), b'0'..=b'9'], 0..400),
            cuts in proptest::collection::vec(any::<usize>(), 0..20),
        ) {
            let whole = decode_all(&bytes, &[]);
            match decode_all(&bytes, &cuts) {
                Ok(replies) => prop_assert_eq!(whole, Ok(replies)),
                Err(_) => prop_assert!(whole.is_err()),
            }
        }

        #[test]
        fn a_length_above_the_bound_reserves_no_memory(length in (BULK_MAX as u128 + 1)..) {
            let mut buffer = BytesMut::from(format!("${length}\r\nabc").as_bytes());
            prop_assert!(decode(&mut buffer).is_err_and(|error| error.starts_with("a reply's length is")));
            prop_assert!(buffer.capacity() < 1024);
        }
    }

    #[test]
    fn invalid_framing_is_refused() {
        for (bytes, error) in [
            ("HTTP/1.1 400\r\n", "a reply begins with 'H'"),
            (":5\r\n", "a reply begins with ':'"),
            ("+OK\n", "a line does not end"),
            ("$1099511627776\r\n", r#"a reply's length is "1099511627776""#),
            ("$8388609\r\n", r#"a reply's length is "8388609""#),
            ("$\u{1b}[2J\r\n", r#"a reply's length is "\\u{1b}[2J""#),
            ("$-2\r\n", r#"a reply's length is "-2""#),
            ("$+2\r\nab\r\n", r#"a reply's length is "+2""#),
            ("$\r\nab\r\n", r#"a reply's length is """#),
            ("$2\r\nabc\r\n", "a line does not end"),
        ] {
            let text = decode(&mut BytesMut::from(bytes)).expect_err(bytes);
            assert!(
                text.starts_with(error) && text.ends_with(": is this a Faktory server?"),
                "{bytes:?}: {text}"
            );
        }
        let endless = "+".repeat(LINE_MAX);
        assert_eq!(decode(&mut BytesMut::from(&endless[..LINE_MAX - 1])), Ok(None));
        let refused = decode(&mut BytesMut::from(&*endless));
        assert!(refused.is_err_and(|text| text.starts_with("a line is longer than 16384 bytes")));
    }
}
