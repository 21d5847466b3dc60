//! Measurements of a source's messages, for `orchestrator ingester probe`. Pure.

mod cbor;

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use orchestrator_ingester_protocols::{
    Outcome, Recognise,
    gaps::{Gaps, Step},
    machine::excerpt,
};
use serde_json::{Value, json};

use crate::item::{Item, Parts};

/// Longest header that is decoded, bytes.
const HEADER_MAX: usize = 64 << 10;

/// Measurements so far.
#[derive(Debug, Default)]
pub(crate) struct Measurements {
    messages: u64,
    bytes: u64,
    /// Size of the first message, from whose arrival the time counts.
    first_bytes: u64,
    sizes: Option<(usize, usize)>,
    parts: Option<(usize, usize)>,
    items: u64,
    /// Items without a number: starts and ends of series, and all of some protocols.
    unnumbered: u64,
    outside: u64,
    ignored: u64,
    invalid: u64,
    last_invalid: Option<String>,
    gaps: Gaps,
    gap_count: u64,
    missing: u64,
    backwards: u64,
    first: Option<Bytes>,
    reconnects: u64,
    /// From the first message to the last.
    lasted: Duration,
    /// Other receivers get the messages in between, so that gaps mean nothing.
    shares_source: bool,
}

impl Measurements {
    /// Measurements of one of several receivers of a source, without gaps.
    pub(crate) fn of_share() -> Self {
        Self { shares_source: true, ..Self::default() }
    }

    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// Records a message that came `after` the first one.
    pub(crate) fn record(&mut self, recogniser: &mut dyn Recognise, message: Parts, after: Duration) {
        self.lasted = after;
        self.messages += 1;
        let bytes: usize = message.iter().map(Bytes::len).sum();
        self.bytes += bytes as u64;
        widen(&mut self.sizes, bytes);
        widen(&mut self.parts, message.len());
        let header = message.first().cloned();
        let mut items = VecDeque::new();
        match recogniser.feed(message, &mut items) {
            Outcome::Taken => {}
            Outcome::Outside => self.outside += 1,
            Outcome::Ignored => self.ignored += 1,
            Outcome::Invalid(reason) => {
                self.invalid += 1;
                self.last_invalid = Some(reason);
            }
        }
        if self.messages == 1 {
            (self.first, self.first_bytes) = (header, bytes as u64);
        }
        items.iter().for_each(|item| self.record_item(item));
    }

    /// Records a lost connection.
    pub(crate) fn reconnected(&mut self) {
        self.reconnects += 1;
    }

    fn record_item(&mut self, item: &Item) {
        self.items += 1;
        let Some(number) = item.number else {
            self.unnumbered += 1;
            self.gaps = Gaps::default();
            return;
        };
        if self.shares_source {
            return;
        }
        match self.gaps.step(number) {
            Step::Ok => {}
            Step::Gap { missing } => {
                self.gap_count += 1;
                self.missing = self.missing.saturating_add(missing);
            }
            Step::Repeat | Step::Backwards => self.backwards += 1,
        }
    }

    /// All figures. Rates cover the time from the first message to the last.
    pub(crate) fn figures(&self) -> Value {
        let seconds = self.lasted.as_secs_f64();
        let rate = |count: u64| if seconds > 0.0 { json!(count as f64 / seconds) } else { Value::Null };
        let (smallest, largest) = self.sizes.unwrap_or_default();
        let (parts_min, parts_max) = self.parts.unwrap_or_default();
        json!({
            "messages": self.messages, "bytes": self.bytes, "seconds": seconds,
            "messages_per_s": rate(self.messages.saturating_sub(1)), "bytes_per_s": rate(self.bytes - self.first_bytes),
            "smallest_bytes": smallest, "largest_bytes": largest,
            "mean_bytes": self.bytes.checked_div(self.messages).unwrap_or_default(),
            "parts_min": parts_min, "parts_max": parts_max,
            "items": self.items, "unnumbered_items": self.unnumbered, "outside_series": self.outside,
            "ignored": self.ignored, "invalid": self.invalid, "last_invalid": self.last_invalid,
            "gaps": self.gap_count, "missing_frames": self.missing, "backward_frames": self.backwards,
            "reconnects": self.reconnects, "header": self.first.as_deref().map(header),
        })
    }
}

/// The decoded header, or the beginning of one that is neither JSON nor a map of CBOR.
fn header(part: &[u8]) -> Value {
    let decoded = if part.len() <= HEADER_MAX { serde_json::from_slice(part).ok() } else { None };
    decoded.or_else(|| cbor::map_to_json(part)).unwrap_or_else(|| json!(excerpt(part)))
}

fn widen(range: &mut Option<(usize, usize)>, value: usize) {
    let (least, most) = range.unwrap_or((value, value));
    *range = Some((least.min(value), most.max(value)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use orchestrator_ingester_protocols::{Machine, albaem::Albaem};

    fn message(kind: &str, number: u64) -> Parts {
        let text = json!({
            "message_type": kind, "message_id": 1, "version": 1, "frame_number": number,
            "timestamp": 0.5, "acquisition_timestamp": 7,
        });
        [Bytes::from(text.to_string()), Bytes::from_static(b"12345")].into_iter().collect()
    }

    #[test]
    fn messages_gaps_and_rates_are_counted() {
        let (mut found, mut recogniser) = (Measurements::default(), Machine::new(Albaem));
        let mut give = |parts: Parts, millis| {
            found.record(&mut recogniser, parts, Duration::from_millis(millis));
        };
        give(message("data", 3), 0);
        give(message("series-start", 0), 100);
        for (at, number) in [0, 1, 2, 5, 5, 9].into_iter().enumerate() {
            give(message("data", number), 200 + at as u64);
        }
        give([Bytes::from_static(b"\x1b no")].into_iter().collect(), 300);
        give(message("series-end", 0), 2_000);
        let figures = found.figures();
        for (key, value) in [
            ("messages", 10),
            ("items", 8),
            ("unnumbered_items", 2),
            ("outside_series", 1),
            ("invalid", 1),
            ("gaps", 2),
            ("missing_frames", 5),
            ("backward_frames", 1),
            ("smallest_bytes", 4),
            ("parts_max", 2),
        ] {
            assert_eq!(figures[key], value, "{key} of {figures}");
        }
        assert_eq!(figures["messages_per_s"], 4.5);
        let first: usize = message("data", 3).iter().map(Bytes::len).sum();
        let rate = (figures["bytes"].as_u64().expect("bytes") - first as u64) as f64 / 2.0;
        assert_eq!(figures["bytes_per_s"], rate);
        assert_eq!(figures["header"]["frame_number"], 3);
        assert!(!figures.to_string().contains('\u{1b}'));
    }

    #[test]
    fn a_share_of_a_source_has_no_gaps() {
        let (mut found, mut recogniser) = (Measurements::of_share(), Machine::new(Albaem));
        for (kind, number) in [("series-start", 0), ("data", 0), ("data", 3), ("data", 6)] {
            found.record(&mut recogniser, message(kind, number), Duration::ZERO);
        }
        let figures = found.figures();
        assert_eq!(
            (&figures["items"], &figures["gaps"], &figures["missing_frames"]),
            (&json!(4), &json!(0), &json!(0))
        );
    }

    #[test]
    fn nothing_is_measured_without_messages() {
        let figures = Measurements::default().figures();
        assert_eq!((&figures["messages"], &figures["header"]), (&json!(0), &Value::Null));
        assert_eq!(figures["messages_per_s"], Value::Null);
    }
}
