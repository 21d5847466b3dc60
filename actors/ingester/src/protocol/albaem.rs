//! Alba electrometers (spec §9). `ZmqSubAlbaemIngester`.

use bytes::Bytes;

use crate::protocol::{
    first_part,
    json::Object,
    machine::{Classify, Kind},
};

/// Classifier of an electrometer's messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Albaem;

impl Classify for Albaem {
    const TYP: &'static str = "albaem";

    fn classify(&self, parts: &[Bytes]) -> Kind {
        first_part::classify(Self::TYP, parts, kind)
    }
}

fn kind(header: &Object<'_>) -> Option<Kind> {
    header.int("message_id")?;
    if !header.is_number("version", 1) {
        return None;
    }
    match header.string("message_type")?.as_ref() {
        "data" => {
            header.float("timestamp")?;
            header.int("acquisition_timestamp")?;
            header.int("frame_number").map(|number| Kind::Data(Some(number)))
        }
        "series-start" => Some(Kind::Start),
        "series-end" => Some(Kind::End),
        _ => None,
    }
}
