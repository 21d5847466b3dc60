//! DECTRIS Stream V2, one CBOR map for each message (CONTRACT IP35 to IP37).
//!
//! Only the members that number and delimit a series are decoded. The message is validated as a
//! whole, in place and without allocation, so that workers get well-formed CBOR.

use std::collections::VecDeque;

use bytes::Bytes;
use minicbor::{
    Decoder,
    data::{Tag, Type},
    decode::Error,
};

use crate::{
    item::{Item, Parts},
    machine::{Kind, Outcome, Recognise, Series, invalid_for, no_parts},
};

const TYP: &str = "EIGER_V2";
/// Tag of self-described CBOR, which may precede the map.
const SELF_DESCRIBED: u64 = 55_799;
/// Deepest nesting. An image has five levels: data, array tag, array, typed array, compression.
const DEPTH: u8 = 32;
/// Most values of one message, with keys, tags, and chunks of strings. A start has about a hundred.
const VALUES_MAX: u32 = 1 << 18;

/// Recogniser of the messages of one mapping.
#[derive(Debug, Default)]
pub struct EigerV2 {
    series: Series,
    /// `series_id` of the start.
    id: Option<u64>,
}

impl Recognise for EigerV2 {
    fn feed(&mut self, message: Parts, out: &mut VecDeque<Item>) -> Outcome {
        if self.series.is_over() {
            return Outcome::Outside;
        }
        let header = match MessageHeader::read(&message) {
            Ok(header) => header,
            Err(reason) => return Outcome::Invalid(reason),
        };
        match header.kind {
            Kind::Start if self.id.is_none() => self.id = Some(header.series_id),
            // After a lost connection, messages of another series may follow without its start.
            _ if self.id.is_some_and(|id| id != header.series_id) => return Outcome::Outside,
            _ => {}
        }
        self.series.step(header.kind, TYP, message, out)
    }
}

/// Decoded members of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MessageHeader {
    /// Kind by `type`; an image has its `image_id`.
    pub kind: Kind,
    /// Number of the series in the detector.
    pub series_id: u64,
}

impl MessageHeader {
    /// Reads and validates a message.
    ///
    /// # Errors
    /// The message is not one of Stream V2; the text says what to do.
    fn read(parts: &[Bytes]) -> Result<Self, String> {
        match parts {
            [] => Err(no_parts(TYP)),
            [part] if part.first() == Some(&b'{') => {
                let reason = "it is JSON: set the detector's stream format to cbor, or use eiger_legacy";
                Err(invalid_for(TYP, reason, parts))
            }
            [part] => {
                Message::new(part).header().map_err(|error| invalid_for(TYP, &error.to_string(), parts))
            }
            _ => Err(invalid_for(TYP, "a message has one part", parts)),
        }
    }
}

/// Members found so far.
#[derive(Debug, Default)]
struct Members<'a> {
    kind: Option<&'a str>,
    series_id: Option<u64>,
    image_id: Option<u64>,
}

impl Members<'_> {
    fn header(self) -> Result<MessageHeader, Error> {
        let missing = |name: &'static str| move || Error::message(name);
        let kind = match self.kind.ok_or_else(missing("type is missing"))? {
            "start" => Kind::Start,
            "image" => Kind::Data(Some(self.image_id.ok_or_else(missing("image_id is missing"))?.into())),
            "end" => Kind::End,
            _ => return Err(Error::message("type is none of start, image and end")),
        };
        Ok(MessageHeader { kind, series_id: self.series_id.ok_or_else(missing("series_id is missing"))? })
    }
}

/// Bounded reader of one message.
struct Message<'a> {
    cbor: Decoder<'a>,
    values_left: u32,
}

impl<'a> Message<'a> {
    fn new(part: &'a [u8]) -> Self {
        Self { cbor: Decoder::new(part), values_left: VALUES_MAX }
    }

    fn header(mut self) -> Result<MessageHeader, Error> {
        if self.cbor.datatype()? == Type::Tag && self.cbor.tag()? != Tag::new(SELF_DESCRIBED) {
            return Err(Error::message("a tag precedes the map"));
        }
        let mut members = Members::default();
        let mut count = self.cbor.map()?;
        while self.has_next(&mut count)? {
            self.count_value()?;
            let key = self.cbor.str()?;
            match key {
                "type" => set(&mut members.kind, self.string()?)?,
                "series_id" => set(&mut members.series_id, self.number()?)?,
                "image_id" => set(&mut members.image_id, self.number()?)?,
                _ => self.skip(1)?,
            }
        }
        if self.cbor.position() < self.cbor.input().len() {
            return Err(Error::message("further bytes follow the map"));
        }
        members.header()
    }

    fn string(&mut self) -> Result<&'a str, Error> {
        self.count_value()?;
        self.cbor.str()
    }

    fn number(&mut self) -> Result<u64, Error> {
        self.count_value()?;
        self.cbor.u64()
    }

    /// True if an element follows in an array or map with `left` elements; None: up to a break, which is
    /// read.
    fn has_next(&mut self, left: &mut Option<u64>) -> Result<bool, Error> {
        let Some(left) = left else {
            let ends = self.cbor.datatype()? == Type::Break;
            self.cbor.set_position(self.cbor.position() + usize::from(ends));
            return Ok(!ends);
        };
        // The count is not trustworthy: each element must be in the message.
        let more = *left > 0;
        *left = left.saturating_sub(1);
        Ok(more)
    }

    /// Validates and skips one value. The recursion is bounded by [`DEPTH`].
    fn skip(&mut self, depth: u8) -> Result<(), Error> {
        if depth > DEPTH {
            return Err(Error::message("its nesting is too deep"));
        }
        self.count_value()?;
        match self.cbor.datatype()? {
            Type::Array | Type::ArrayIndef => {
                let mut count = self.cbor.array()?;
                while self.has_next(&mut count)? {
                    self.skip(depth + 1)?;
                }
            }
            Type::Map | Type::MapIndef => {
                let mut count = self.cbor.map()?;
                while self.has_next(&mut count)? {
                    self.skip(depth + 1)?;
                    self.skip(depth + 1)?;
                }
            }
            Type::Tag => {
                self.cbor.tag()?;
                self.skip(depth + 1)?;
            }
            kind @ (Type::BytesIndef | Type::StringIndef) => {
                self.cbor.set_position(self.cbor.position() + 1);
                while self.has_next(&mut None)? {
                    self.count_value()?;
                    self.skip_string(kind == Type::StringIndef)?;
                }
            }
            kind @ (Type::Bytes | Type::String) => self.skip_string(kind == Type::String)?,
            Type::Break => return Err(Error::message("a break is out of place")),
            Type::Unknown(_) => return Err(Error::message("it has a reserved type")),
            // Numbers and simple values, which have no elements.
            _ => self.cbor.skip()?,
        }
        Ok(())
    }

    fn skip_string(&mut self, is_text: bool) -> Result<(), Error> {
        if is_text {
            self.cbor.str()?;
        } else {
            self.cbor.bytes()?;
        }
        Ok(())
    }

    fn count_value(&mut self) -> Result<(), Error> {
        let left = self.values_left.checked_sub(1);
        self.values_left = left.ok_or_else(|| Error::message("it has too many values"))?;
        Ok(())
    }
}

fn set<T>(member: &mut Option<T>, value: T) -> Result<(), Error> {
    match member.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::message("a key is repeated")),
    }
}

#[cfg(test)]
mod tests;
