//! Tests of captured bytes, times, damaged files, and round trips.

use proptest::prelude::*;

use super::*;

/// First event captured from the original.
const CAPTURED: &str = "d9d9f7d9a77d8300a1656569676572d9a77e82655354494e53815843\
    7b226874797065223a2022686561646572222c202266696c656e616d65223a20222f746d702f736572696573312e6835222c20226d73\
    675f6e756d626572223a20307dc0781b323032362d31312d32305431323a34353a34372e3634393630335a";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn encoded(event: &Event) -> Vec<u8> {
    let mut out = Vec::new();
    let streams = event.streams.iter().map(|one| (&*one.name, &*one.typ, &one.frames[..]));
    encode_event(&mut out, event.number, streams, event.created_at.unwrap_or_default());
    out
}

#[test]
fn the_captured_event_is_read_and_written_byte_for_byte() {
    let bytes = hex(CAPTURED);
    let mut reader = Reader::new(&bytes[..]);
    let Some(Entry::Event(event)) = reader.read().unwrap() else { panic!("an event") };
    assert_eq!((event.number, &*event.streams[0].name, &*event.streams[0].typ), (0, "eiger", "STINS"));
    assert_eq!(event.created_at.unwrap().to_string(), "2026-11-20T12:45:47.649603Z");
    assert_eq!(encoded(&event), bytes);
    assert_eq!(reader.read().unwrap(), None);
    // Format of versions from before 2025.
    let old = [&bytes[..6], b"\x82", &bytes[7..bytes.len() - 30]].concat();
    let Some(Entry::Event(event)) = Reader::new(&old[..]).read().unwrap() else { panic!("an event") };
    assert_eq!((event.streams.len(), event.created_at), (1, None));
}

#[test]
fn times_are_cut_to_microseconds() {
    for (given, written) in [
        ("2026-11-20T12:45:47Z", "t2026-11-20T12:45:47Z"),
        ("2026-11-20T12:45:47.000000999Z", "t2026-11-20T12:45:47Z"),
        ("2026-11-20T12:45:47.1Z", "x\u{1b}2026-11-20T12:45:47.100000Z"),
        ("2026-11-20T12:45:47.999999999Z", "x\u{1b}2026-11-20T12:45:47.999999Z"),
    ] {
        let mut out = Vec::new();
        encode_event(&mut out, 24, std::iter::empty(), given.parse().unwrap());
        let expected = [&b"\xd9\xd9\xf7\xd9\xa7\x7d\x83\x18\x18\xa0\xc0"[..], written.as_bytes()].concat();
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}

#[test]
fn no_other_file_is_taken_for_a_dump() {
    for bytes in
        [&b"hello"[..], b"\x81\x41a", b"\xd9\xd9\xf7\xd9\xa7\x7e", b"\xd9\xd9\xf7\xd9\xa7\x7d\x9f\x01"]
    {
        assert_eq!(whole_events(io::Cursor::new(bytes), bytes.len() as u64).unwrap(), None);
    }
}

#[test]
fn an_invalid_file_names_its_fault() {
    for (bytes, text) in [
        (&b"\x83A"[..], "ends inside the item at byte 0"),
        (b"\x80\x9a\0\x10\0\0", "ends inside the item at byte 1"),
        (b"\x80\x9b\xff\xff\xff\xff\xff\xff\xff\xff", "byte 1: neither a dump nor a raw capture: "),
        (b"\x80\x9a\0\x10\0\x01", "too many parts"),
        (b"\x80\x81\x5b\0\0\0\0\x40\0\0\0", "the item at byte 1 is longer than 1073741824 bytes"),
        (b"\x81\x5a\x3f\xff\xff\0", "ends inside the item at byte 0"),
        (b"\x81\x5f\x40", "neither a dump nor a raw capture"),
        (b"\x9f\x40", "no array and no event"),
        (b"\x83\x9f\x9f\x9f", "neither a dump nor a raw capture"),
        (b"\x81\xc6\xc6\x40", "neither a dump nor a raw capture"),
        (b"\xd9\xd9\xf7\xd9\xd9\xf7\xd9\xa7\x7d", "no event"),
        (b"\xd9\xd9\xf7\xd9\xa7\x7d\x83\0\xbb\x10\0\0\0\0\0\0\0", "too many streams"),
        (b"\xd9\xd9\xf7\xd9\xa7\x7d\x83\0\xbf\x61a", "streams without a count"),
        (b"\xd9\xd9\xf7\xd9\xa7\x7d\x83\0\xa1\x7b\x10\0\0\0\0\0\0\0", "a name that is too long"),
        (b"\xd9\xd9\xf7\xd9\xa7\x7d\x83\0\xa0\x83\x9f\x9f\x9f", "no point in time"),
        (b"\xd9\xd9\xf7\xd9\xa7\x7d\x83\0\xa0\xc0\x7b\x10\0\0\0\0\0\0\0", "a name that is too long"),
        (b"hello", "neither a dump nor a raw capture"),
        (b"\x81\x01", "neither a dump nor a raw capture"),
        (b"\xd9\xd9\xf7\xd9\xa7\x7d\x81\x01", "two or three"),
    ] {
        let mut reader = Reader::new(bytes);
        let error = std::iter::repeat_with(|| reader.read()).find_map(Result::err).unwrap();
        assert!(error.to_string().contains(text), "{error}");
    }
}

/// Reader that returns a few bytes at a time.
struct ChunkedReader<'a>(&'a [u8], usize);

impl Read for ChunkedReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(into.len());
        self.0.read(&mut into[..count])
    }
}

prop_compose! {
    fn event()(number: u64, us in 0..4_102_444_800_000_000_i64, old in any::<bool>(),
        streams in proptest::collection::vec(("[a-z0-9ü]{0,30}", ".{0,8}", proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..400), 0..5)), 0..4)) -> Event {
        let streams = streams.into_iter().map(|(name, typ, frames)|
            Stream { name, typ, frames: frames.into_iter().map(Bytes::from).collect() }).collect();
        let us = if old { us / 1_000_000 * 1_000_000 } else { us };
        Event { number, streams, created_at: Some(Timestamp::from_microsecond(us).unwrap()) }
    }
}

proptest! {
    #[test]
    fn events_are_read_as_written(events in proptest::collection::vec(event(), 0..6), piece in 1..300_usize) {
        let bytes: Vec<u8> = events.iter().flat_map(encoded).collect();
        let mut reader = Reader::new(ChunkedReader(&bytes, piece));
        for event in events {
            prop_assert_eq!(reader.read().unwrap(), Some(Entry::Event(event)));
        }
        prop_assert_eq!(reader.read().unwrap(), None);
    }

    #[test]
    fn whole_events_are_found_in_a_cut_dump(events in proptest::collection::vec(event(), 0..6), cut: prop::sample::Index) {
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for event in &events {
            bytes.extend(encoded(event));
            ends.push(bytes.len() as u64);
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        let len = bytes.len() as u64;
        let whole = ends.into_iter().rev().find(|end| *end <= len);
        prop_assert_eq!(whole_events(io::Cursor::new(bytes), len).unwrap(), whole);
    }

    #[test]
    fn damaged_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), event in event(), at: u16, into: u8) {
        let mut damaged = encoded(&event);
        let at = usize::from(at) % damaged.len();
        damaged[at] = into;
        bytes.splice(0..0, damaged);
        let whole = whole_events(io::Cursor::new(&bytes), bytes.len() as u64).unwrap();
        prop_assert!(whole.is_none_or(|whole| whole <= bytes.len() as u64));
        let mut reader = Reader::new(&bytes[..]);
        while let Ok(Some(_)) = reader.read() {}
    }
}
