//! The JSON header of a message to a worker (spec §4). Pure.

use std::fmt::Write;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

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
        let mut text = String::with_capacity(self.streams.len() + 96);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            r#"{{"event_number":{event},"streams":{},"created_at":"{created_at:.6}"}}"#,
            self.streams
        );
        text.into()
    }
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
