//! Alba electrometers (CONTRACT IP19). `ZmqSubAlbaemIngester`.

use bytes::Bytes;

use crate::{
    json::Object,
    machine::{Classify, Kind, invalid},
};

/// Classifier of an electrometer's messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Albaem;

impl Classify for Albaem {
    const TYP: &'static str = "albaem";

    fn classify(&mut self, parts: &[Bytes]) -> Kind {
        let kind = parts.first().and_then(|part| Object::parse(part)).and_then(|header| kind(&header));
        kind.unwrap_or_else(|| Kind::Invalid(invalid(Self::TYP, parts)))
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
