//! STINS: what MAX IV's streaming receiver and area detector plug-ins push (spec §9). `ZmqPullSingleIngester`.

use bytes::Bytes;

use crate::protocol::{
    htype::{Header, is_string},
    lax,
    machine::{Classify, Kind, invalid},
};

/// Classifier of STINS messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stins;

impl Classify for Stins {
    const TYP: &'static str = "STINS";

    fn classify(&self, parts: &[Bytes]) -> Kind {
        let kind = parts.first().and_then(|part| Header::read(part)).and_then(|header| kind(&header));
        kind.unwrap_or_else(|| Kind::Invalid(invalid(Self::TYP, parts)))
    }
}

fn kind(header: &Header<'_>) -> Option<Kind> {
    lax::int(header.msg_number?)?;
    header.kind(|image| image.compression.is_some_and(is_string))
}
