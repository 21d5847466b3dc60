//! STINS, the protocol of MAX IV's streaming receiver and area detector plug-ins (CONTRACT IP16).
//! `ZmqPullSingleIngester`.

use bytes::Bytes;

use crate::{
    htype::{Header, is_string},
    lax,
    machine::{Classify, Kind, invalid},
    template::Template,
};

/// Classifier of STINS messages.
#[derive(Debug, Default)]
pub struct Stins {
    last: Template,
}

impl Classify for Stins {
    const TYP: &'static str = "STINS";

    fn classify(&mut self, parts: &[Bytes]) -> Kind {
        let Some(part) = parts.first() else { return Kind::Invalid(invalid(Self::TYP, parts)) };
        if let Some(frame) = self.last.frame_of(part) {
            return Kind::Data(Some(frame));
        }
        let kind = Header::read(part).and_then(|header| kind(&header));
        if let Some(Kind::Data(_)) = kind {
            self.last.keep(part, "frame");
        }
        kind.unwrap_or_else(|| Kind::Invalid(invalid(Self::TYP, parts)))
    }
}

pub(crate) fn kind(header: &Header<'_>) -> Option<Kind> {
    lax::int(header.msg_number?)?;
    header.kind(|image| image.compression.is_some_and(is_string))
}
