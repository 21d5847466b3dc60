//! STINS: what MAX IV's streaming receiver and area detector plug-ins push (spec §9). `ZmqPullSingleIngester`.

use bytes::Bytes;

use crate::protocol::{
    first_part,
    json::Object,
    machine::{Classify, Kind},
};

/// Classifier of STINS messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stins;

impl Classify for Stins {
    const TYP: &'static str = "STINS";

    fn classify(&self, parts: &[Bytes]) -> Kind {
        first_part::classify(Self::TYP, parts, kind)
    }
}

fn kind(header: &Object<'_>) -> Option<Kind> {
    header.int("msg_number")?;
    first_part::by_htype(header, image)
}

fn image(header: &Object<'_>) -> Option<Kind> {
    let fits = header.has_ints("shape") && header.has_string("type") && header.has_string("compression");
    let frame = header.int("frame")?;
    fits.then_some(Kind::Data(Some(frame)))
}
