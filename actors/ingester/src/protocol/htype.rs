//! The header that STINS and Xspress3 share (CONTRACT IP14): `htype` says what a message is. It is read for every frame, so that it is
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
            if let Some(name) = key.string()
                && let Some(field) = header.field(name.as_bytes())
            {
                *field = Some(value);
            }
        })?;
        Some(header)
    }

    /// As bytes, which are told apart one by one where strings are compared with each name in turn.
    fn field(&mut self, name: &[u8]) -> Option<&mut Option<Raw<'a>>> {
        Some(match name {
            b"htype" => &mut self.htype,
            b"frame" => &mut self.frame,
            b"shape" => &mut self.shape,
            b"type" => &mut self.dtype,
            b"filename" => &mut self.filename,
            b"compression" => &mut self.compression,
            b"msg_number" => &mut self.msg_number,
            b"exptime" => &mut self.exptime,
            _ => return None,
        })
    }

    /// What the message is; `fits`: what the protocol asks of an image besides.
    pub(crate) fn kind(&self, fits: impl Fn(&Self) -> bool) -> Option<Kind> {
        let image = || self.image().filter(|_| fits(self));
        let Some(htype) = self.htype else {
            // Without a type it is what it has most fields of: the original's choice among several that fit.
            return image().or_else(|| self.start()).or(Some(Kind::End));
        };
        match htype.string()?.as_bytes() {
            b"image" => image(),
            b"header" => self.start(),
            b"series_end" => Some(Kind::End),
            _ => None,
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
