//! Streams of frames that exceed a limit.

use orchestrator_observe::MetricKind;
use proptest::prelude::*;

use super::*;

const FRAME_MAX: u32 = 131_072;

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, 0, 1], &(payload.len() as u32).to_be_bytes()[..], payload, &[0xce]].concat()
}

fn deliver() -> Vec<u8> {
    frame(METHOD, &[&ANNOUNCING[1][..], b"\x01c\0\0\0\0\0\0\0\x01\0\0\0"].concat())
}

fn header(size: u64) -> Vec<u8> {
    frame(HEADER, &[&[0, 60, 0, 0][..], &size.to_be_bytes(), &[0, 0]].concat())
}

fn message(body: usize) -> Vec<u8> {
    [deliver(), header(body as u64), frame(BODY, &vec![0xce; body])].concat()
}

fn tracker(max: u64) -> FrameTracker {
    FrameTracker::new(FRAME_MAX, UnreadDeliveries::new(max, None))
}

#[test]
fn an_exceeded_limit_is_named() {
    for (bytes, error) in [
        (b"HTTP/1.1 400".to_vec(), LimitError::Type(b'H')),
        (b"\x01\0\0\xff\xff\xff\xff".to_vec(), LimitError::Frame { size: u32::MAX, max: FRAME_MAX - 8 }),
        ([deliver(), header(1 << 63)].concat(), LimitError::Body(1 << 63)),
        ([deliver(), header(BODY_MAX + 1)].concat(), LimitError::Body(BODY_MAX + 1)),
        (deliver().repeat(2_100), LimitError::Announced),
        (message(1).repeat(11), LimitError::Messages(10)),
    ] {
        assert_eq!(tracker(10).track(&mut bytes.clone(), true), Err(error));
    }
    assert_eq!(tracker(1).track(&mut [deliver(), header(BODY_MAX)].concat(), true).map(drop), Ok(()));
    assert_eq!(
        tracker(0).track(&mut message(1).repeat(5_000), true).map(drop),
        Ok(()),
        "no limit on unread messages"
    );
}

#[test]
fn a_read_message_makes_room() {
    let mut tracker = tracker(10);
    let unread = tracker.unread.clone();
    for _ in 0..1_000 {
        tracker.track(&mut message(300), true).expect("one waits");
        unread.read(300);
    }
    assert_eq!((unread.messages.load(Relaxed), unread.bytes.load(Relaxed)), (0, 0));
    unread.read(5);
    assert_eq!(unread.bytes.load(Relaxed), 0, "nothing waits");
    for _ in 0..7 {
        assert_eq!(tracker.track(&mut [deliver(), header(BODY_MAX)].concat(), true).map(drop), Ok(()));
    }
    assert_eq!(
        tracker.track(&mut [deliver(), header(BODY_MAX)].concat(), true),
        Err(LimitError::UnreadBytes)
    );
}

#[test]
fn the_gauge_has_messages_until_their_shares_are_dropped_or_the_connection_ends() {
    let held = orchestrator_supervise::testing::vitals("o/amqp").register(
        "held",
        "bytes",
        MetricKind::Gauge,
        "Bytes.",
    );
    let message_cost = (300 + MESSAGE_COST) as i64;
    let mut tracker = FrameTracker::new(FRAME_MAX, UnreadDeliveries::new(10, Some(held.clone())));
    tracker.track(&mut message(300).repeat(3), true).expect("three wait");
    assert_eq!(held.get(), 3 * message_cost);
    let shares = [(), ()].map(|()| tracker.unread.read(300));
    assert_eq!(held.get(), 3 * message_cost, "read, not settled");
    drop(tracker);
    assert_eq!(held.get(), 2 * message_cost, "the unread one ends with the connection");
    drop(shares);
    assert_eq!(held.get(), 0);
}

#[test]
fn a_method_frame_is_held_until_it_is_whole() {
    let mut tracker = tracker(10);
    let bytes = message(3);
    let first = deliver().len();
    for cut in 0..first {
        assert_eq!(tracker.track(&mut bytes[..cut].to_vec(), true), Ok(0), "{cut}");
    }
    let body_begun = bytes.len() - 2;
    assert_eq!(tracker.track(&mut bytes[..body_begun].to_vec(), true), Ok(body_begun), "bodies are not held");
    assert_eq!(tracker.track(&mut bytes[body_begun..].to_vec(), true), Ok(2));
}

proptest! {
    #[test]
    fn the_result_does_not_depend_on_the_reads(
        bodies in proptest::collection::vec(0_usize..500, 0..20),
        mut cuts in proptest::collection::vec(0_usize..12_000, 0..60),
        bad in any::<bool>(),
    ) {
        let mut bytes: Vec<u8> = bodies.iter().flat_map(|&body| message(body)).collect();
        bytes.extend(frame(HEARTBEAT, b""));
        if bad {
            bytes.extend(header(u64::MAX));
        }
        cuts.sort_unstable();
        let mut tracker = tracker(100);
        let (mut begun, mut outcome) = (0, Ok(()));
        let (mut held, mut passed) = (Vec::new(), Vec::new());
        for end in cuts.into_iter().chain([bytes.len()]) {
            let end = end.clamp(begun, bytes.len());
            held.extend_from_slice(&bytes[begun..end]);
            begun = end;
            match outcome.clone().and_then(|()| tracker.track(&mut held, true)) {
                Ok(whole) => passed.extend(held.drain(..whole)),
                Err(error) => outcome = Err(error),
            }
        }
        if !bad {
            prop_assert_eq!(&passed, &bytes, "all bytes are passed on unchanged");
        }
        prop_assert_eq!(outcome, if bad { Err(LimitError::Body(u64::MAX)) } else { Ok(()) });
        prop_assert_eq!(tracker.unread.messages.load(Relaxed), bodies.len() as u64);
    }
}
