//! STINS: what MAX IV's streaming receiver and area detector plug-ins push (spec §9). `ZmqPullSingleIngester`.

use bytes::Bytes;

use crate::protocol::{
    json::Object,
    machine::{Classify, Kind, invalid},
};

/// Classifier of STINS messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stins;

impl Classify for Stins {
    const TYP: &'static str = "STINS";

    fn classify(&self, parts: &[Bytes]) -> Kind {
        let kind = parts.first().and_then(|part| Object::parse(part)).and_then(|header| kind(&header));
        kind.unwrap_or_else(|| Kind::Invalid(invalid(Self::TYP, parts)))
    }
}

fn kind(header: &Object<'_>) -> Option<Kind> {
    header.int("msg_number")?;
    let htype = header.get("htype");
    // Without a type it is what it has most fields of: the original's choice among several that fit.
    let name = match htype {
        Some(raw) => Some(raw.string()?),
        None => None,
    };
    match name.as_deref() {
        Some("image") => image(header),
        Some("header") => start(header),
        Some("series_end") => Some(Kind::End),
        Some(_) => None,
        None => image(header).or_else(|| start(header)).or(Some(Kind::End)),
    }
}

fn image(header: &Object<'_>) -> Option<Kind> {
    let fits = header.has_ints("shape") && header.has_string("type") && header.has_string("compression");
    let frame = header.int("frame")?;
    fits.then_some(Kind::Data(Some(frame)))
}

fn start(header: &Object<'_>) -> Option<Kind> {
    header.has_string("filename").then_some(Kind::Start)
}
