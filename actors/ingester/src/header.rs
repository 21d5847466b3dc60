//! The JSON header of a message to a worker (CONTRACT IP04). Pure.

use std::fmt::Write;

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::Value;

/// Headers are written into blocks of so many bytes: some thirty share one allocation, and who keeps one keeps no more than that.
const BLOCK: usize = 4 * 1024;
/// Digits of a number of 64 bits at the most.
const DIGITS: usize = 20;
/// Longest text of a time to the second, and what is around the parts of a header, bytes.
const AROUND: usize = 96;

/// A stream's part of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// Name of the stream.
    pub stream: &'a str,
    /// What workers choose their parser by.
    pub typ: &'a str,
    /// Parts that follow for it.
    pub length: usize,
}

/// Writes headers; what does not change from event to event is kept.
#[derive(Debug, Default)]
pub struct Writer {
    streams: String,
    of: Vec<(String, String, usize)>,
    /// The second of the last header, counted from 1970, and its text up to the point.
    second: Option<i64>,
    second_text: String,
    block: BytesMut,
}

impl Writer {
    /// The header of `event` with `parts` in the order of the frames: workers slice the frames in the order of its text.
    pub fn write(&mut self, event: u64, parts: &[Part<'_>], created_at: Timestamp) -> Bytes {
        let same = self.of.len() == parts.len()
            && self.of.iter().zip(parts).all(|((stream, typ, length), part)| {
                stream == part.stream && typ == part.typ && *length == part.length
            });
        if !same {
            self.streams = streams(parts);
            self.of =
                parts.iter().map(|part| (part.stream.to_owned(), part.typ.to_owned(), part.length)).collect();
        }
        let micros = created_at.as_microsecond();
        self.tell_second(micros.div_euclid(1_000_000), created_at);
        let room = self.streams.len() + DIGITS + AROUND;
        if self.block.capacity() < room {
            self.block = BytesMut::with_capacity(room.max(BLOCK));
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

    fn tell_second(&mut self, second: i64, at: Timestamp) {
        if self.second.replace(second) == Some(second) {
            return;
        }
        self.second_text.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.second_text, "{at:.6}");
        // Without the six digits and the Z.
        self.second_text.truncate(self.second_text.len().saturating_sub(7));
    }
}

/// Appends `number` with `least` digits or more.
fn put_number(out: &mut BytesMut, mut number: u64, least: usize) {
    let mut digits = [b'0'; DIGITS];
    let mut from = DIGITS;
    while number > 0 {
        from -= 1;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.put_slice(&digits[from.min(DIGITS - least)..]);
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
    fn it_is_the_captured_one() {
        let at: Timestamp = "2026-11-20T12:45:03.392521Z".parse().unwrap();
        let captured = r#"{"event_number":1,"streams":{"eiger":{"typ":"STINS","length":2}},"created_at":"2026-11-20T12:45:03.392521Z"}"#;
        let mut writer = Writer::default();
        assert_eq!(writer.write(1, &[EIGER], at), captured);
        assert_eq!(writer.write(1, &[EIGER], at), captured, "also from what was kept");
    }

    #[test]
    fn times_are_those_that_their_own_text_says() {
        let mut writer = Writer::default();
        for micros in [0, 1, 999_999, 1_000_000, 1_795_178_747_572_412, -1, -1_000_001] {
            let at = Timestamp::from_microsecond(micros).unwrap();
            let text = writer.write(u64::MAX, &[EIGER], at);
            let end = format!(r#""created_at":"{at:.6}"}}"#);
            assert!(text.ends_with(end.as_bytes()), "{} ends with {end}", text.escape_ascii());
            assert!(text.starts_with(br#"{"event_number":18446744073709551615,"#));
        }
    }

    #[test]
    fn the_order_of_the_text_is_the_order_of_the_frames() {
        let at = Timestamp::UNIX_EPOCH;
        let mut writer = Writer::default();
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
