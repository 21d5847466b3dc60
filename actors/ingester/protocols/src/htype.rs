//! Header shared by STINS and Xspress3 (CONTRACT IP14); `htype` is the kind of message. It is
//! parsed for every frame, in one pass and without copies.

use crate::{
    json::{Raw, each_member},
    lax,
    machine::Kind,
};

/// Fields that distinguish messages; of repeated ones the last.
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
    /// Parses the first part of a message; None if it is not an object.
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

    /// Matched as bytes, which is faster than comparing strings one by one.
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

    /// Kind of the message. `fits` checks further fields of an image.
    pub(crate) fn kind(&self, fits: impl Fn(&Self) -> bool) -> Option<Kind> {
        let image = || self.image().filter(|_| fits(self));
        let Some(htype) = self.htype else {
            // Without a type the kind with the most matching fields wins, as in the original.
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

pub(crate) fn is_string(raw: Raw<'_>) -> bool {
    raw.lead() == b'"'
}
