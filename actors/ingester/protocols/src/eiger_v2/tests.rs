//! Tests of a documented message, of refusals, and of damaged and random bytes.

use minicbor::Encoder;
use proptest::prelude::*;

use super::*;

/// Message with the members of DECTRIS's documentation, of series 7.
fn message(kind: &str, image_id: u64) -> Vec<u8> {
    let mut cbor = Encoder::new(Vec::new());
    let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
        cbor.tag(Tag::new(SELF_DESCRIBED))?.begin_map()?.str("type")?.str(kind)?;
        if kind == "image" {
            cbor.str("data")?.map(2)?;
            for channel in ["threshold_1", "threshold_2"] {
                // A typed array of 16-bit integers, compressed.
                cbor.str(channel)?.tag(Tag::new(40))?.array(2)?.array(2)?.u16(514)?.u16(1030)?;
                cbor.tag(Tag::new(69))?.tag(Tag::new(56_500))?.array(3)?.str("bslz4")?.u8(2)?;
                cbor.bytes(&[0xa5; 4_000])?;
            }
            cbor.str("image_id")?.u64(image_id)?;
            cbor.str("start_time")?.array(2)?.u64(image_id * 1_000)?.u64(50_000_000)?;
        }
        cbor.str("series_id")?.u64(7)?.str("series_unique_id")?.str("01HBV3JPF9T4ZDPADX8EMK6XMZ")?;
        cbor.str("user_data")?.begin_array()?.null()?.f64(0.5)?.bool(true)?.begin_bytes()?.bytes(b"ab")?;
        cbor.end()?.i8(-3)?.end()?.end()?;
        Ok(())
    };
    write().expect("in memory");
    cbor.into_writer()
}

fn read(bytes: &[u8]) -> Result<MessageHeader, String> {
    MessageHeader::read(&[Bytes::copy_from_slice(bytes)])
}

/// Outcomes and numbers of messages.
fn feed(messages: impl IntoIterator<Item = Vec<u8>>) -> (Vec<Outcome>, Vec<Option<u64>>) {
    let (mut eiger, mut items) = (EigerV2::default(), VecDeque::new());
    let mut give = |bytes: Vec<u8>| {
        let message = Bytes::from(bytes);
        let outcome = eiger.feed([message.clone()].into_iter().collect(), &mut items);
        let is_item = items.back().is_some_and(|item| item.frames[0].as_ptr() == message.as_ptr());
        assert_eq!(is_item, outcome == Outcome::Taken, "the part itself is passed on");
        outcome
    };
    let outcomes = messages.into_iter().map(&mut give).collect();
    assert!(items.iter().all(|item| item.typ == TYP));
    (outcomes, items.iter().map(|item| item.number).collect())
}

/// Short map of text keys and encoded values.
fn map(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0xa0 | members.len() as u8];
    for (key, value) in members {
        bytes.extend([&[0x60 | key.len() as u8], key.as_bytes(), value].concat());
    }
    bytes
}

const END: (&str, &[u8]) = ("type", b"\x63end");
const SERIES: (&str, &[u8]) = ("series_id", b"\x01");

#[test]
fn a_series_is_numbered_and_delimited() {
    let images = [3, 4, 4, 6, 1].map(|number| message("image", number));
    let before = [message("image", 0), message("end", 0)];
    let messages = before.into_iter().chain([message("start", 0)]).chain(images);
    let (outcomes, numbers) =
        feed(messages.chain([message("start", 0), message("end", 0), message("image", 7)]));
    use Outcome::{Outside, Taken};
    let taken = [const { Taken }; 6];
    assert_eq!(outcomes, [&[Outside, Outside][..], &taken, &[Outside, Taken, Outside]].concat());
    assert_eq!(numbers, [None, Some(0), Some(1), Some(1), Some(3), Some(0), None]);
}

#[test]
fn messages_of_another_series_are_outside() {
    let other = |kind: &[u8]| map(&[("type", kind), ("series_id", b"\x08"), ("image_id", b"\x00")]);
    let (outcomes, numbers) = feed([
        message("start", 0),
        other(b"\x65image"),
        other(b"\x63end"),
        other(b"\x65start"),
        message("image", 0),
        message("end", 0),
    ]);
    use Outcome::{Outside, Taken};
    assert_eq!(outcomes, [Taken, Outside, Outside, Outside, Taken, Taken]);
    assert_eq!(numbers, [None, Some(0), None]);
}

#[test]
fn the_order_of_keys_does_not_matter() {
    let found = read(&map(&[("image_id", b"\x19\x01\x00"), SERIES, ("type", b"\x65image")]));
    assert_eq!(found, Ok(MessageHeader { kind: Kind::Data(Some(256)), series_id: 1 }));
}

#[test]
fn a_refusal_says_what_is_wrong() {
    let deep = |count| [map(&[END, SERIES, ("u", b"")]), b"\x81".repeat(count), b"\x00".to_vec()].concat();
    assert!(read(&deep(usize::from(DEPTH) - 1)).is_ok());
    let wide = |count: u32| {
        let head = [&[0x9a][..], &count.to_be_bytes()].concat();
        map(&[END, SERIES, ("u", &[head, vec![0; count as usize]].concat())])
    };
    assert!(read(&wide(VALUES_MAX - 8)).is_ok());
    for (bytes, reason) in [
        (deep(DEPTH.into()), "nesting is too deep"),
        (deep(1 << 20), "nesting is too deep"),
        (wide(VALUES_MAX), "too many values"),
        (map(&[END]), "series_id is missing"),
        (map(&[SERIES]), "type is missing"),
        (map(&[SERIES, ("type", b"\x65image")]), "image_id is missing"),
        (map(&[SERIES, ("type", b"\x65imago")]), "type is none of"),
        (map(&[SERIES, ("type", b"\x05")]), "unexpected type"),
        (map(&[SERIES, END, SERIES]), "repeated"),
        (map(&[END, ("series_id", b"\x20")]), "unexpected type"),
        ([map(&[END, SERIES]), vec![0]].concat(), "further bytes"),
        ([vec![0xd8, 40], map(&[END, SERIES])].concat(), "a tag precedes"),
        (b"\x80".to_vec(), "expected map"),
        (b"".to_vec(), "end of input"),
        // Announced lengths of 2^63 bytes, elements and pairs.
        (map(&[END, SERIES, ("u", b"\x5b\x80\0\0\0\0\0\0\0abc")]), "end of input"),
        (map(&[END, SERIES, ("u", b"\x9b\x80\0\0\0\0\0\0\0\0")]), "end of input"),
        (b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(), "end of input"),
        (map(&[END, SERIES, ("u", b"\xff")]), "break is out of place"),
        (map(&[END, SERIES, ("u", b"\x1c")]), "reserved"),
        (map(&[END, SERIES, ("u", b"\x62\xc3\x28")]), "utf"),
        (br#"{"htype":"dheader-1.0"}"#.to_vec(), "stream format to cbor"),
    ] {
        let refusal = read(&bytes).expect_err(reason);
        let text = refusal.to_lowercase();
        assert!(
            text.contains(reason) && text.contains("check what the sender writes"),
            "{reason}: {refusal}"
        );
        assert!(refusal.len() < 2_000, "{}", refusal.len());
    }
    let part = Bytes::from(message("end", 0));
    assert!(MessageHeader::read(&[part.clone(), part]).expect_err("two").contains("a message has one part"));
    assert!(MessageHeader::read(&[]).expect_err("none").contains("it has no parts"));
}

proptest! {
    /// A changed message is refused or valid, and a cut one is always refused.
    #[test]
    fn damaged_messages_are_read_without_a_panic(at: u16, byte: u8, cut in any::<bool>(), kind in 0..3_usize) {
        let whole = message(["start", "image", "end"][kind], 5);
        let mut bytes = whole.clone();
        let at = usize::from(at) % bytes.len();
        if cut {
            bytes.truncate(at);
            prop_assert!(read(&bytes).is_err());
        } else {
            bytes[at] = byte;
            let _ = read(&bytes);
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(
        prop_oneof![any::<u8>(), prop::sample::select(&b"\xa0\xa1\xbf\x9f\x5f\x7f\xff\x81\xd8\x64type\x65image"[..])], 0..200)) {
        let _ = read(&bytes);
    }
}
