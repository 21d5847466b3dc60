//! Property tests of the decoder with any input, cut anywhere.

use bytes::{BufMut, Bytes, BytesMut};
use proptest::prelude::*;

use super::{Command, Decoder, FrameHeader, FrameLimits, Greeting, Incoming, ZmtpError, encode_message};

const LIMITS: FrameLimits = FrameLimits { frame_max: 5_000, message_max: 8_000, parts_max: 6 };
const BLOCK: usize = 512;

/// Feeds `bytes` in pieces of the sizes `cuts`, repeated, and returns the decoded messages.
fn feed(decoder: &mut Decoder, mut bytes: &[u8], cuts: &[usize]) -> Result<Vec<Incoming>, ZmtpError> {
    let mut incoming = Vec::new();
    let mut cuts = cuts.iter().copied().cycle();
    loop {
        while let Some(one) = decoder.decode()? {
            incoming.push(one);
        }
        let most = LIMITS.frame_max.max(crate::frame::COMMAND_BYTES_MAX) + 2 * BLOCK.max(4096);
        assert!(decoder.reserved() <= most, "{} bytes reserved", decoder.reserved());
        if bytes.is_empty() {
            return Ok(incoming);
        }
        let mut space = decoder.space();
        assert!(space.has_remaining_mut(), "no place for the next bytes");
        let size = cuts.next().unwrap_or(1).min(bytes.len()).min(space.remaining_mut());
        let (piece, rest) = bytes.split_at(size);
        space.put_slice(piece);
        bytes = rest;
    }
}

fn message() -> impl Strategy<Value = Vec<Bytes>> {
    let part = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..300),
        1 => prop::collection::vec(any::<u8>(), 300..2_000),
    ];
    prop::collection::vec(part.prop_map(Bytes::from), 1..4)
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1..4_usize, 1..3_000_usize], 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn messages_are_decoded_wherever_they_are_cut(
        messages in prop::collection::vec((message(), any::<bool>()), 0..20),
        cuts in cuts(),
    ) {
        let mut wire = BytesMut::new();
        let mut expected = Vec::new();
        for (message, ping) in messages {
            if ping {
                let pong = Command::pong(b"x");
                expected.push(Incoming::Command(pong.slice(2..)));
                wire.put(pong);
            }
            encode_message(&message, &mut wire);
            expected.push(Incoming::Message(message.into()));
        }
        let mut decoder = Decoder::new(LIMITS, BLOCK);
        prop_assert_eq!(feed(&mut decoder, &wire, &cuts), Ok(expected));
        prop_assert_eq!(decoder.missing(), None);
    }

    #[test]
    fn hostile_bytes_are_an_error_or_nothing(
        bytes in prop::collection::vec(prop_oneof![0..8_u8, any::<u8>()], 0..4_000),
        cuts in cuts(),
    ) {
        // Checks for panics and for reservations beyond the limits.
        let _ = feed(&mut Decoder::new(LIMITS, BLOCK), &bytes, &cuts);
        let _ = Command::decode(Bytes::copy_from_slice(&bytes));
        let _ = Greeting::decode(&bytes);
    }

    #[test]
    fn lengths_over_the_limit_are_refused_by_the_header_alone(len in 5_001_u64.., command: bool) {
        prop_assume!(!command || len > 65_536);
        let mut wire = vec![if command { 6 } else { 2 }];
        wire.put_u64(len);
        let mut decoder = Decoder::new(LIMITS, BLOCK);
        let error = feed(&mut decoder, &wire, &[9]);
        let refused = matches!(error, Err(ZmtpError::FrameTooLong { bytes, .. }) if bytes == len);
        prop_assert!(refused);
        prop_assert!(decoder.reserved() <= 4096);
    }
}

#[test]
fn a_long_frame_is_read_into_a_buffer_of_its_size() {
    let mut decoder = Decoder::new(LIMITS, BLOCK);
    let header = FrameHeader::message(5_000, false);
    assert_eq!(feed(&mut decoder, &[&header[..], b"abc"].concat(), &[64]), Ok(vec![]));
    assert_eq!(decoder.missing(), Some(4_997));
    assert_eq!(decoder.space().remaining_mut(), 4_997, "what follows the frame must not be read into it");
    let Ok(incoming) = feed(&mut decoder, &[0; 4_997], &[4_997]) else { panic!("it is within the limits") };
    let [Incoming::Message(parts)] = &incoming[..] else { panic!("one message: {incoming:?}") };
    assert_eq!((parts.len(), parts[0].len()), (1, 5_000));
}

#[test]
fn small_frames_are_slices_of_one_block() {
    let mut wire = BytesMut::new();
    encode_message(&[Bytes::from_static(b"first"), Bytes::from_static(b"second")], &mut wire);
    let incoming = feed(&mut Decoder::new(LIMITS, BLOCK), &wire, &[wire.len()]).expect("well formed");
    let [Incoming::Message(parts)] = &incoming[..] else { panic!("one message: {incoming:?}") };
    let gap = parts[1].as_ptr() as usize - (parts[0].as_ptr() as usize + parts[0].len());
    assert_eq!(gap, 2, "only the second header is between them");
}

#[test]
fn a_message_has_a_limit_of_its_own() {
    let part = Bytes::from(vec![0; 4_500]);
    let mut wire = BytesMut::new();
    encode_message(&[part.clone(), part], &mut wire);
    let error = feed(&mut Decoder::new(LIMITS, BLOCK), &wire, &[100]);
    assert_eq!(error, Err(ZmtpError::MessageTooLong { bytes: 9_000, limit: 8_000 }));
    let mut wire = BytesMut::new();
    encode_message(&vec![Bytes::new(); 7], &mut wire);
    let error = feed(&mut Decoder::new(LIMITS, BLOCK), &wire, &[100]);
    assert_eq!(error, Err(ZmtpError::TooManyParts(6)));
}
