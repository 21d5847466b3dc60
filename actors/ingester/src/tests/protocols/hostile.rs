//! Hostile messages: no recogniser panics or exhausts memory.

use std::collections::VecDeque;

use bytes::Bytes;
use orchestrator_ingester_protocols::{Outcome, Recognise, pandabox::PandaBox, sardana::Post};
use proptest::prelude::*;

use crate::{
    item::{Item, Parts},
    tests::captures::{ZMQ_CASES, messages, recogniser},
};

/// Feeds messages and returns the bytes of the resulting items.
fn feed(recogniser: &mut dyn Recognise, messages: Vec<Vec<Bytes>>) -> usize {
    let mut items = VecDeque::new();
    for message in messages {
        recogniser.feed(message.into(), &mut items);
    }
    items.iter().map(Item::bytes).sum()
}

/// Sources without golden captures, as cases.
const OTHERS: [&str; 3] = ["eiger_v2-x", "stins_parallel-x", "eiger_legacy_parallel-x"];

proptest! {
    #[test]
    fn random_messages(case in 0..ZMQ_CASES.len() + OTHERS.len(), parts in proptest::collection::vec(
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..4), 0..6)) {
        let messages = parts.into_iter().map(|parts| parts.into_iter().map(Bytes::from).collect()).collect();
        let case = ZMQ_CASES.get(case).unwrap_or_else(|| &OTHERS[case - ZMQ_CASES.len()]);
        feed(&mut *recogniser(case), messages);
    }

    /// Captures with bytes changed, removed and inserted, and messages out of order.
    #[test]
    fn damaged_captures(case in 0..ZMQ_CASES.len(), damages in proptest::collection::vec(
        (any::<u16>(), any::<u16>(), any::<u8>(), 0..5_u8), 1..12)) {
        let case = ZMQ_CASES[case];
        let mut damaged = messages(case);
        for (message, at, byte, how) in damages {
            let message = usize::from(message) % damaged.len();
            let mut part = damaged[message].first().map(|part| part.to_vec()).unwrap_or_default();
            let at = usize::from(at) % (part.len() + 1);
            match how {
                0 if at < part.len() => part[at] = byte,
                1 => part.insert(at, byte),
                2 => part.truncate(at),
                3 => drop(part.drain(at..(at + usize::from(byte)).min(part.len()))),
                _ => {
                    let other = usize::from(byte) % damaged.len();
                    damaged.swap(message, other);
                    continue;
                }
            }
            if let Some(first) = damaged[message].first_mut() {
                *first = Bytes::from(part);
            }
        }
        let sent: usize = damaged.iter().flatten().map(Bytes::len).sum();
        for other in OTHERS {
            prop_assert!(feed(&mut *recogniser(other), damaged.clone()) <= sent);
        }
        let created = feed(&mut *recogniser(case), damaged);
        // PCAP repeats scalars in each item, LeCroy a sequence start.
        prop_assert!(created <= sent * 40, "{} bytes of {}", created, sent);
    }

    #[test]
    fn random_posts(body in proptest::collection::vec(any::<u8>(), 0..80), text in "[\\[\\]{}\",:0-9a-z]{0,40}") {
        for post in [Post::Description, Post::Record, Post::End] {
            let _ = post.frame(&body);
            let _ = post.frame(text.as_bytes());
            let _ = post.frame(format!("{{\"timestamp\":{text}}}").as_bytes());
        }
    }

    #[test]
    fn random_lines(pieces in proptest::collection::vec("(OK|arm_time: |END|x|\n| ){0,12}", 0..12)) {
        let (mut panda, mut items) = (PandaBox::default(), VecDeque::new());
        for piece in pieces {
            if panda.feed(piece.as_bytes(), &mut items).is_err() {
                break;
            }
        }
    }
}

#[test]
fn a_split_cannot_fill_the_memory() {
    let scalar = "x".repeat(1 << 20);
    let list = vec!["1"; 20_000].join(",");
    let data = format!(
        r#"{{"message_id":1,"version":1,"message_type":"data","frame_number":0,"s":"{scalar}","l":[{list}]}}"#
    );
    let start = Bytes::from_static(
        br#"{"message_id":1,"version":1,"message_type":"series-start","arm_time":"2024-10-07T08:49:10Z"}"#,
    );
    let created = feed(&mut *recogniser("pcap-x"), vec![vec![start.clone()], vec![Bytes::from(data)]]);
    assert_eq!(created, start.len());
}

#[test]
fn a_sequence_that_never_ends_cannot_fill_the_memory() {
    let (mut recogniser, mut items) = (recogniser("lecroy-x"), VecDeque::new());
    let text = |text: &'static str| Parts::from_iter([Bytes::from_static(text.as_bytes())]);
    recogniser.feed(text(r#"{"htype":"msg","what":0,"frame":0}"#), &mut items);
    let start = text(r#"{"htype":"msg","what":1,"frame":0,"ntriggers":-1,"seqno":0,"channels":[1]}"#);
    recogniser.feed(start.clone(), &mut items);
    let mut traces = text(
        r#"{"htype":"traces","ch":1,"ts":1,"frame":0,"shape":[1],"dtype":"a","horiz_offset":0,"horiz_interval":1}"#,
    );
    // One allocation, counted repeatedly.
    traces.push(Bytes::from(vec![0; 64 << 20]));
    let outcomes: Vec<Outcome> = (0..17).map(|_| recogniser.feed(traces.clone(), &mut items)).collect();
    assert!(
        matches!(&outcomes[..], [.., Outcome::Taken, Outcome::Invalid(_), Outcome::Taken]),
        "{outcomes:?}"
    );
    recogniser.feed(text(r#"{"htype":"msg","what":2,"frame":0}"#), &mut items);
    let item = items.pop_back().expect("an item");
    assert_eq!((item.frames.len(), &item.frames[0]), (4, &start[0]));
}
