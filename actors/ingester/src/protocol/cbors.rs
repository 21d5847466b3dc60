//! Dump files (`.cbors`, spec §10) and raw captures: written and read. Both are CBOR items one behind the other, with nothing around them.
//!
//! A dump has one item an event, with all streams of the ingester; a raw capture has one array of byte strings a ZeroMQ message.

use std::io::Read;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use minicbor::{
    Decoder, Encoder,
    data::{Tag, Type},
    decode, encode,
};

use crate::item::Parts;

/// Tag of a CBOR item that says that it is one.
const SELF_DESCRIBED: u64 = 55_799;
/// Tag of an event.
const EVENT: u64 = 42_877;
/// Tag of one stream's part of an event.
const STREAM: u64 = 42_878;
/// Tag of a point in time as text.
const TIME: u64 = 0;
/// Longest event or message that is read, in bytes.
pub const ITEM_MAX: usize = 1 << 30;
/// What is read at once, in bytes; doubled as long as an item goes on.
const READ: usize = 64 << 10;

/// Appends one event to `out`, byte for byte as the original writes it: shortest integers, definite lengths, microseconds. A stream is
/// its name, its type and its frames.
pub fn encode_event<'a>(
    out: &mut Vec<u8>,
    event_number: u64,
    streams: impl ExactSizeIterator<Item = (&'a str, &'a str, &'a [Bytes])>,
    created_at: Timestamp,
) {
    let time = match created_at.subsec_microsecond() + 1_000 * created_at.subsec_millisecond() {
        0 => format!("{created_at:.0}"),
        _ => format!("{created_at:.6}"),
    };
    // A vector takes all that is written: nothing can fail.
    let _ = write_event(&mut Encoder::new(&mut *out), event_number, streams, &time);
}

fn write_event<'a, W: encode::Write>(
    cbor: &mut Encoder<W>,
    event_number: u64,
    streams: impl ExactSizeIterator<Item = (&'a str, &'a str, &'a [Bytes])>,
    time: &str,
) -> Result<(), encode::Error<W::Error>> {
    cbor.tag(Tag::new(SELF_DESCRIBED))?.tag(Tag::new(EVENT))?.array(3)?.u64(event_number)?;
    cbor.map(streams.len() as u64)?;
    for (name, typ, frames) in streams {
        cbor.str(name)?.tag(Tag::new(STREAM))?.array(2)?.str(typ)?.array(frames.len() as u64)?;
        for frame in frames {
            cbor.bytes(frame)?;
        }
    }
    cbor.tag(Tag::new(TIME))?.str(time)?;
    Ok(())
}

/// One item of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Of a dump.
    Event(Event),
    /// Of a raw capture: the parts of one message.
    Message(Parts),
}

/// One event of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub number: u64,
    /// Its streams in order.
    pub streams: Vec<Stream>,
    /// When it was made; dumps of before 2025 do not tell.
    pub created_at: Option<Timestamp>,
}

/// One stream's part of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// The type of its item.
    pub typ: String,
    /// The parts.
    pub frames: Parts,
}

/// Why a file cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum CborsError {
    /// Reading failed.
    #[error("it cannot be read: {0}: give a file that can, and look at its disk")]
    Io(#[from] std::io::Error),
    /// It ends inside an item: it is still written, or was cut off.
    #[error("the file ends inside the item at byte {0}: it was cut off, or is still written")]
    CutOff(u64),
    /// It is neither a dump nor a capture.
    #[error(
        "byte {at}: neither a dump nor a raw capture: {reason}: give a .cbors file or a capture of CBOR arrays"
    )]
    Malformed {
        /// Where the item begins.
        at: u64,
        /// What is not right.
        reason: String,
    },
    /// An item is too long.
    #[error("the item at byte {0} is longer than {ITEM_MAX} bytes: cut the file, it cannot be played")]
    TooLong(u64),
}

/// Reads a file item by item. It holds one item and what was read with it.
#[derive(Debug)]
pub struct Reader<R> {
    file: R,
    unread: BytesMut,
    at: u64,
}

impl<R: Read> Reader<R> {
    /// Reads from `file`, which may be read in any pieces.
    pub fn new(file: R) -> Self {
        Self { file, unread: BytesMut::new(), at: 0 }
    }

    /// The next item; None at the end.
    ///
    /// # Errors
    /// Reading failed, or the file is no dump and no capture. It cannot be read on.
    #[expect(clippy::should_implement_trait, reason = "not to be adapted: an error ends it")]
    pub fn next(&mut self) -> Result<Option<Entry>, CborsError> {
        let mut wanted = READ;
        loop {
            match self.length() {
                Ok(0) => {}
                Ok(length) => {
                    let bytes = self.unread.split_to(length).freeze();
                    let entry = entry(&bytes).map_err(|error| self.malformed(&error));
                    self.at += length as u64;
                    return entry.map(Some);
                }
                Err(error) if error.is_end_of_input() => {}
                Err(error) => return Err(self.malformed(&error)),
            }
            if self.unread.len() > ITEM_MAX {
                return Err(CborsError::TooLong(self.at));
            }
            if self.fill(wanted)? == 0 {
                return if self.unread.is_empty() { Ok(None) } else { Err(CborsError::CutOff(self.at)) };
            }
            // As much again as there is, so that what is looked at twice stays in proportion.
            wanted = self.unread.len().max(READ);
        }
    }

    /// Length of the item in front; 0 if there is nothing.
    fn length(&self) -> Result<usize, decode::Error> {
        if self.unread.is_empty() {
            return Ok(0);
        }
        let mut decoder = Decoder::new(&self.unread);
        // Told at once: a file of another kind may announce the longest things.
        expect(matches!(decoder.datatype()?, Type::Array | Type::Tag), "no array and no event")?;
        decoder.skip()?;
        Ok(decoder.position())
    }

    fn fill(&mut self, count: usize) -> Result<usize, CborsError> {
        let before = self.unread.len();
        self.unread.reserve(count);
        let mut limited = (&mut self.file).take(count as u64);
        loop {
            let from = self.unread.len();
            self.unread.resize((from + READ).min(before + count), 0);
            let got = limited.read(&mut self.unread[from..]);
            self.unread.truncate(from + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => return Ok(self.unread.len() - before),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn malformed(&self, error: &decode::Error) -> CborsError {
        CborsError::Malformed { at: self.at, reason: error.to_string() }
    }
}

fn entry(bytes: &Bytes) -> Result<Entry, decode::Error> {
    let mut cbor = Decoder::new(bytes);
    if cbor.datatype()? == Type::Array {
        return Ok(Entry::Message(frames(&mut cbor, bytes)?));
    }
    let mut tag = cbor.tag()?;
    if tag == Tag::new(SELF_DESCRIBED) {
        tag = cbor.tag()?;
    }
    expect(tag == Tag::new(EVENT), "no event")?;
    let elements = cbor.array()?;
    expect(matches!(elements, Some(2 | 3)), "an event has two or three elements")?;
    let number = cbor.u64()?;
    let count = cbor.map()?.ok_or_else(|| decode::Error::message("streams without a count"))?;
    let mut streams = Vec::new();
    for _stream in 0..count {
        let name = cbor.str()?.to_owned();
        expect(cbor.tag()? == Tag::new(STREAM), "no stream")?;
        expect(cbor.array()? == Some(2), "a stream has two elements")?;
        let typ = cbor.str()?.to_owned();
        streams.push(Stream { name, typ, frames: frames(&mut cbor, bytes)? });
    }
    let created_at = if elements == Some(3) { time(&mut cbor)? } else { None };
    Ok(Entry::Event(Event { number, streams, created_at }))
}

fn frames(cbor: &mut Decoder<'_>, bytes: &Bytes) -> Result<Parts, decode::Error> {
    let count = cbor.array()?.ok_or_else(|| decode::Error::message("frames without a count"))?;
    // The count is what the file says: room is made as they come.
    let mut frames = Parts::new();
    for _frame in 0..count {
        frames.push(bytes.slice_ref(cbor.bytes()?));
    }
    Ok(frames)
}

fn time(cbor: &mut Decoder<'_>) -> Result<Option<Timestamp>, decode::Error> {
    if cbor.datatype()? != Type::Tag {
        cbor.skip()?;
        return Ok(None);
    }
    expect(cbor.tag()? == Tag::new(TIME), "no point in time")?;
    cbor.str()?.parse().map(Some).map_err(|_| decode::Error::message("no point in time"))
}

fn expect(is_so: bool, otherwise: &'static str) -> Result<(), decode::Error> {
    if is_so { Ok(()) } else { Err(decode::Error::message(otherwise)) }
}

#[cfg(test)]
mod tests;
