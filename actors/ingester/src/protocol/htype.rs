//! The header that STINS and Xspress3 share (spec §9): `htype` says what a message is. It is read for every frame, so that it is
//! looked through once, and nothing is kept but where the fields are.

use crate::protocol::{
    json::{Raw, each_member},
    lax,
    machine::Kind,
};

/// The fields that tell one message from another; of repeated ones the last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Header<'a> {
    htype: Option<Raw<'a>>,
    frame: Option<Raw<'a>>,
    shape: Option<Raw<'a>>,
    dtype: Option<Raw<'a>>,
    filename: Option<Raw<'a>>,
    pub(crate) compression: Option<Raw<'a>>,
    pub(crate) msg_number: Option<Raw<'a>>,
    pub(crate) exptime: Option<Raw<'a>>,
}

impl<'a> Header<'a> {
    /// Reads the first part of a message; None if it is no object.
    pub(crate) fn read(part: &'a [u8]) -> Option<Self> {
        let mut header = Self::default();
        each_member(part, |key, value| {
            let Some(name) = key.string() else { return };
            let field = match &*name {
                "htype" => &mut header.htype,
                "frame" => &mut header.frame,
                "shape" => &mut header.shape,
                "type" => &mut header.dtype,
                "filename" => &mut header.filename,
                "compression" => &mut header.compression,
                "msg_number" => &mut header.msg_number,
                "exptime" => &mut header.exptime,
                _ => return,
            };
            *field = Some(value);
        })?;
        Some(header)
    }

    /// What the message is; `fits`: what the protocol asks of an image besides.
    pub(crate) fn kind(&self, fits: impl Fn(&Self) -> bool) -> Option<Kind> {
        let htype = match self.htype {
            Some(raw) => Some(raw.string()?),
            None => None,
        };
        let image = || self.image().filter(|_| fits(self));
        match htype.as_deref() {
            Some("image") => image(),
            Some("header") => self.start(),
            Some("series_end") => Some(Kind::End),
            Some(_) => None,
            // Without a type it is what it has most fields of: the original's choice among several that fit.
            None => image().or_else(|| self.start()).or(Some(Kind::End)),
        }
    }

    fn image(&self) -> Option<Kind> {
        let frame = lax::int(self.frame?)?;
        (lax::is_ints(self.shape?) && is_string(self.dtype?)).then_some(Kind::Data(Some(frame)))
    }

    fn start(&self) -> Option<Kind> {
        is_string(self.filename?).then_some(Kind::Start)
    }
}

/// Is it a string? Nothing else is taken for one.
pub(crate) fn is_string(raw: Raw<'_>) -> bool {
    raw.lead() == b'"'
}
