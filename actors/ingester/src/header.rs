//! The JSON header of a message to a worker (CONTRACT IP04). Pure.

use std::fmt::Write;

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::Value;

/// Block size of header memory, bytes. About thirty headers share one allocation.
const BLOCK_BYTES: usize = 4 * 1024;
/// Most digits of a 64-bit number.
const DIGITS_MAX: usize = 20;
/// Longest text of a header without its streams, bytes.
const FIXED_BYTES: usize = 96;

/// Part of one stream in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    /// Name of the stream.
    pub stream: &'a str,
    /// Type by which workers choose their parser.
    pub typ: &'a str,
    /// Number of frames of this stream.
    pub length: usize,
}

/// Writer of headers; caches the text that repeats from event to event.
#[derive(Debug, Default)]
pub(crate) struct HeaderWriter {
    streams: String,
    parts: Vec<(String, String, usize)>,
    /// Second of the last header, counted from 1970, and its text up to the decimal point.
    second: Option<i64>,
    second_text: String,
    block: BytesMut,
}

impl HeaderWriter {
    /// `parts` must be in the order of the frames, since workers split the frames in the header's order.
    pub(crate) fn write(&mut self, event: u64, parts: &[Part<'_>], created_at: Timestamp) -> Bytes {
        let same = self.parts.len() == parts.len()
            && self.parts.iter().zip(parts).all(|((stream, typ, length), part)| {
                stream == part.stream && typ == part.typ && *length == part.length
            });
        if !same {
            self.streams = streams(parts);
            self.parts =
                parts.iter().map(|part| (part.stream.to_owned(), part.typ.to_owned(), part.length)).collect();
        }
        let micros = created_at.as_microsecond();
        self.update_second_text(micros.div_euclid(1_000_000), created_at);
        let room = self.streams.len() + DIGITS_MAX + FIXED_BYTES;
        if self.block.capacity() < room {
            self.block = BytesMut::with_capacity(room.max(BLOCK_BYTES));
        }
        let out = &mut self.block;
        out.put_slice(br#"{"event_number":"#);
        put_number(out, event, 1);
        out.put_slice(br#","streams":"#);
        out.put_slice(self.streams.as_bytes());
        out.put_slice(br#","created_at":""#);
        out.put_slice(self.second_text.as_bytes());
        put_number(out, micros.rem_euclid(1_000_000).unsigned_abs(), 6);
        out.put_slice(br#"Z"}"#);
        out.split().freeze()
    }

    fn update_second_text(&mut self, second: i64, at: Timestamp) {
        if self.second.replace(second) == Some(second) {
            return;
        }
        self.second_text.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.second_text, "{at:.6}");
        // Removes the six digits and the `Z`.
        self.second_text.truncate(self.second_text.len().saturating_sub(7));
    }
}

/// Appends `number` with at least `least` digits.
fn put_number(out: &mut BytesMut, mut number: u64, least: usize) {
    let mut digits = [b'0'; DIGITS_MAX];
    let mut from = DIGITS_MAX;
    while number > 0 {
        from -= 1;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.put_slice(&digits[from.min(DIGITS_MAX - least)..]);
}

fn streams(parts: &[Part<'_>]) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let one = |part: &Part<'_>| {
        format!(r#"{}:{{"typ":{},"length":{}}}"#, quoted(part.stream), quoted(part.typ), part.length)
    };
    format!("{{{}}}", parts.iter().map(one).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIGER: Part<'_> = Part { stream: "eiger", typ: "STINS", length: 2 };

    #[test]
    fn the_header_equals_the_captured_one() {
        let at: Timestamp = "2026-11-20T12:45:03.392521Z".parse().unwrap();
        let captured = r#"{"event_number":1,"streams":{"eiger":{"typ":"STINS","length":2}},"created_at":"2026-11-20T12:45:03.392521Z"}"#;
        let mut writer = HeaderWriter::default();
        assert_eq!(writer.write(1, &[EIGER], at), captured);
        assert_eq!(writer.write(1, &[EIGER], at), captured, "also from what was kept");
    }

    #[test]
    fn times_have_six_digits_in_any_second() {
        let mut writer = HeaderWriter::default();
        for micros in [0, 1, 999_999, 1_000_000, 1_795_178_747_572_412, -1, -1_000_001] {
            let at = Timestamp::from_microsecond(micros).unwrap();
            let text = writer.write(u64::MAX, &[EIGER], at);
            let end = format!(r#""created_at":"{at:.6}"}}"#);
            assert!(text.ends_with(end.as_bytes()), "{} ends with {end}", text.escape_ascii());
            assert!(text.starts_with(br#"{"event_number":18446744073709551615,"#));
        }
    }

    #[test]
    fn streams_are_in_the_order_of_the_frames() {
        let at = Timestamp::UNIX_EPOCH;
        let mut writer = HeaderWriter::default();
        let other = Part { stream: "a \"b\"", typ: "PCAP", length: 1 };
        writer.write(8, &[EIGER], at);
        assert_eq!(
            writer.write(9, &[EIGER, other], at),
            r#"{"event_number":9,"streams":{"eiger":{"typ":"STINS","length":2},"a \"b\"":{"typ":"PCAP","length":1}},"created_at":"1970-01-01T00:00:00.000000Z"}"#
        );
        let short = Part { length: 1, ..EIGER };
        assert!(
            writer
                .write(9, &[short], at)
                .starts_with(br#"{"event_number":9,"streams":{"eiger":{"typ":"STINS","length":1}}"#)
        );
    }
}
