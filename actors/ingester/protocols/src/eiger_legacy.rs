//! DECTRIS stream v1 with appendix (CONTRACT IP17). `ZmqPullEigerLegacyIngester`. The number of
//! parts is not checked.

use bytes::Bytes;

use crate::{
    json::Object,
    machine::{Classify, Kind, invalid},
};

/// Classifier of messages of an Eiger's legacy stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct EigerLegacy;

impl Classify for EigerLegacy {
    const TYP: &'static str = "EIGER_LEGACY";

    fn classify(&mut self, parts: &[Bytes]) -> Kind {
        let kind = parts.first().and_then(|part| Object::parse(part)).and_then(|header| kind(&header));
        kind.unwrap_or_else(|| Kind::Invalid(invalid(Self::TYP, parts)))
    }
}

fn kind(header: &Object<'_>) -> Option<Kind> {
    match header.string("htype")?.as_ref() {
        "dimage-1.0" => header.int("frame").map(|frame| Kind::Data(Some(frame))),
        "dheader-1.0" => Some(Kind::Start),
        "dseries_end-1.0" => Some(Kind::End),
        _ => None,
    }
}
