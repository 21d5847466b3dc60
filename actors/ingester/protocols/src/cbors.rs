//! Dump files (`.cbors`, CONTRACT IF11, IF12) and raw captures. Both are sequences of CBOR items.
//!
//! A dump has one item for each event, with all streams of the ingester. A raw capture has one
//! array of byte strings for each ZeroMQ message.

use std::io::{self, BufReader, Read, Seek};

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use minicbor::{
    Decoder, Encoder,
    data::{Tag, Type},
    decode, encode,
};

use crate::item::Parts;

/// Tag of self-described CBOR.
const SELF_DESCRIBED: u64 = 55_799;
/// Tag of an event.
const EVENT: u64 = 42_877;
/// Tag of one stream's part of an event.
const STREAM: u64 = 42_878;
/// Tag of a time as text.
const TIME: u64 = 0;
/// Longest event or message, bytes.
pub(crate) const ITEM_MAX: usize = 1 << 30;
/// Most parts of one item. An empty part takes one byte in the file, and much more in memory.
pub(crate) const PARTS_MAX: usize = 1 << 20;
/// Most streams of one event.
const STREAMS_MAX: u64 = 4_096;
/// Longest stream name, type or time, bytes.
const NAME_MAX: u64 = 4_096;
/// Bytes of one read; doubled while an item continues.
const READ: usize = 64 << 10;

/// Appends one event to `out`, byte for byte as the original writes it: shortest integers, definite
/// lengths, microseconds. Each stream has a name, a type and frames.
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
    // Writing to a vector cannot fail.
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

/// Length of the whole events at the beginning of a dump of `len` bytes: less than `len` if the last event is
/// cut off. None if the file has anything else than events. Frames are skipped, not read.
///
/// # Errors
/// Reading failed.
pub fn whole_events(dump: impl Read + Seek, len: u64) -> io::Result<Option<u64>> {
    let mut dump = BufReader::new(dump);
    let mut whole = 0;
    while whole < len {
        match skip_event(&mut dump, len) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
        // Skipping does not notice the end of the file.
        let end = dump.stream_position()?;
        if end > len {
            break;
        }
        whole = end;
    }
    Ok(Some(whole))
}

/// Skips an event in a file of `len` bytes. Returns false if it is another item, or has an item of indefinite
/// length.
fn skip_event(dump: &mut BufReader<impl Read + Seek>, len: u64) -> io::Result<bool> {
    for tag in [SELF_DESCRIBED, EVENT] {
        if read_head(dump)? != Some((6, tag)) {
            return Ok(false);
        }
    }
    let mut items: u64 = 1;
    while items > 0 {
        let Some((major, argument)) = read_head(dump)? else { return Ok(false) };
        let inner = match major {
            2 | 3 => {
                let bytes = i64::try_from(argument).ok().filter(|_| argument <= len);
                dump.seek_relative(bytes.ok_or(io::ErrorKind::UnexpectedEof)?)?;
                0
            }
            4 => argument,
            5 => argument.saturating_mul(2),
            6 => 1,
            _ => 0,
        };
        items = (items - 1).saturating_add(inner);
    }
    Ok(true)
}

/// Reads the major type and the argument of a CBOR item; None if its length is indefinite.
fn read_head(file: &mut impl Read) -> io::Result<Option<(u8, u64)>> {
    let mut first = [0];
    file.read_exact(&mut first)?;
    let (major, info) = (first[0] >> 5, first[0] & 0x1f);
    let bytes = match info {
        0..24 => return Ok(Some((major, u64::from(info)))),
        24..28 => 1 << (info - 24),
        _ => return Ok(None),
    };
    let mut argument = [0; 8];
    file.read_exact(&mut argument[8 - bytes..])?;
    Ok(Some((major, u64::from_be_bytes(argument))))
}

/// One item of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Event of a dump.
    Event(Event),
    /// Parts of one message of a raw capture.
    Message(Parts),
}

impl Entry {
    /// Sum of the parts' lengths, bytes.
    pub fn bytes(&self) -> usize {
        let bytes = |frames: &Parts| frames.iter().map(Bytes::len).sum::<usize>();
        match self {
            Self::Event(event) => event.streams.iter().map(|stream| bytes(&stream.frames)).sum(),
            Self::Message(parts) => bytes(parts),
        }
    }
}

/// One event of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Number of the event.
    pub number: u64,
    /// Streams in order.
    pub streams: Vec<Stream>,
    /// Time of creation; missing in dumps from before 2025.
    pub created_at: Option<Timestamp>,
}

/// One stream's part of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Name of the stream.
    pub name: String,
    /// Type of its item.
    pub typ: String,
    /// Parts of its item.
    pub frames: Parts,
}

/// Reason why a file cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum CborsError {
    /// Reading failed.
    #[error("it cannot be read: {0}: give a readable file, and check its disk")]
    Io(#[from] std::io::Error),
    /// The file ends inside an item.
    #[error("the file ends inside the item at byte {0}: it was cut off, or is still being written")]
    CutOff(u64),
    /// The file is neither a dump nor a capture.
    #[error(
        "byte {at}: neither a dump nor a raw capture: {reason}: give a .cbors file or a capture of CBOR arrays"
    )]
    Malformed {
        /// Position of the item, bytes.
        at: u64,
        /// Fault that was found.
        reason: String,
    },
    /// An item is too long.
    #[error("the item at byte {0} is longer than {ITEM_MAX} bytes: cut the file before it")]
    TooLong(u64),
}

/// Reason why no item was decoded.
#[derive(Debug)]
enum Stop {
    /// More bytes are needed.
    More,
    /// An announced length exceeds the limit.
    TooLong,
    /// The item is malformed.
    Malformed(decode::Error),
}

impl From<decode::Error> for Stop {
    fn from(error: decode::Error) -> Self {
        if error.is_end_of_input() { Self::More } else { Self::Malformed(error) }
    }
}

/// Reader of a file, item by item. It buffers one item and the rest of its last block.
#[derive(Debug)]
pub struct Reader<R> {
    file: R,
    unread: BytesMut,
    at: u64,
}

impl<R: Read> Reader<R> {
    /// Reads from `file`, in blocks of any size.
    pub fn new(file: R) -> Self {
        Self { file, unread: BytesMut::new(), at: 0 }
    }

    /// Next item; None at the end.
    ///
    /// # Errors
    /// Reading failed, or the file is malformed. Do not read on then.
    pub fn read(&mut self) -> Result<Option<Entry>, CborsError> {
        let mut wanted = READ;
        loop {
            // The first pass only validates, since lengths in the file are not trustworthy.
            let mut cbor = Decoder::new(&self.unread);
            let found = entry(&mut cbor, None);
            let length = cbor.position();
            match found.and_then(|_| {
                let bytes = self.unread.split_to(length).freeze();
                entry(&mut Decoder::new(&bytes), Some(&bytes))
            }) {
                Ok(entry) => {
                    self.at += length as u64;
                    return Ok(Some(entry));
                }
                Err(Stop::More) if self.unread.len() <= ITEM_MAX => {}
                Err(Stop::More | Stop::TooLong) => return Err(CborsError::TooLong(self.at)),
                Err(Stop::Malformed(error)) => {
                    return Err(CborsError::Malformed { at: self.at, reason: error.to_string() });
                }
            }
            if self.fill(wanted)? == 0 {
                return if self.unread.is_empty() { Ok(None) } else { Err(CborsError::CutOff(self.at)) };
            }
            // Doubles the buffer, so that the work of repeated validation stays linear.
            wanted =
                self.unread.len().max(READ).min(READ.max(ITEM_MAX + 1 - self.unread.len().min(ITEM_MAX)));
        }
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
}

/// Decodes the first item. Frames are kept if `bytes` is given, which must be the bytes of the
/// whole item.
fn entry(cbor: &mut Decoder<'_>, bytes: Option<&Bytes>) -> Result<Entry, Stop> {
    let mut parts_left = PARTS_MAX;
    match cbor.datatype()? {
        Type::Array => return Ok(Entry::Message(frames(cbor, bytes, &mut parts_left)?)),
        Type::Tag => {}
        _ => return malformed("no array and no event"),
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
    expect(count <= STREAMS_MAX, "too many streams")?;
    let mut streams = Vec::new();
    for _stream in 0..count {
        let name = text(cbor)?;
        expect(cbor.tag()? == Tag::new(STREAM), "no stream")?;
        expect(cbor.array()? == Some(2), "a stream has two elements")?;
        let (typ, name) = (text(cbor)?.to_owned(), name.to_owned());
        streams.push(Stream { name, typ, frames: frames(cbor, bytes, &mut parts_left)? });
    }
    let created_at = if elements == Some(3) { time(cbor)? } else { None };
    Ok(Entry::Event(Event { number, streams, created_at }))
}

fn frames(cbor: &mut Decoder<'_>, bytes: Option<&Bytes>, parts_left: &mut usize) -> Result<Parts, Stop> {
    let count = cbor.array()?.ok_or_else(|| decode::Error::message("frames without a count"))?;
    *parts_left = usize::try_from(count)
        .ok()
        .and_then(|count| parts_left.checked_sub(count))
        .ok_or_else(|| decode::Error::message("too many parts"))?;
    // The count is not trustworthy; nothing is reserved for it.
    let mut frames = Parts::new();
    for _frame in 0..count {
        if announced(cbor).is_some_and(|length| length > (ITEM_MAX - cbor.position().min(ITEM_MAX)) as u64) {
            return Err(Stop::TooLong);
        }
        let frame = cbor.bytes()?;
        frames.extend(bytes.map(|bytes| bytes.slice_ref(frame)));
    }
    Ok(frames)
}

/// A short text.
fn text<'a>(cbor: &mut Decoder<'a>) -> Result<&'a str, Stop> {
    expect(announced(cbor).is_none_or(|length| length <= NAME_MAX), "a name that is too long")?;
    Ok(cbor.str()?)
}

/// Argument of the next item's head (RFC 8949 §3); for a string its length.
fn announced(cbor: &Decoder<'_>) -> Option<u64> {
    let (head, rest) = cbor.input().get(cbor.position()..)?.split_first()?;
    let size = match head & 0x1f {
        argument @ 24..=27 => 1 << (argument - 24),
        _ => return None,
    };
    Some(rest.get(..size)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

fn time(cbor: &mut Decoder<'_>) -> Result<Option<Timestamp>, Stop> {
    match cbor.datatype()? {
        Type::Tag => {
            expect(cbor.tag()? == Tag::new(TIME), "no point in time")?;
            let time = text(cbor)?.parse();
            time.map(Some).or_else(|_| malformed("no point in time"))
        }
        Type::Null | Type::Undefined => {
            cbor.skip()?;
            Ok(None)
        }
        _ => malformed("no point in time"),
    }
}

fn expect(is_so: bool, otherwise: &'static str) -> Result<(), Stop> {
    if is_so { Ok(()) } else { malformed(otherwise) }
}

fn malformed<T>(reason: &'static str) -> Result<T, Stop> {
    Err(Stop::Malformed(decode::Error::message(reason)))
}

#[cfg(test)]
mod tests;
