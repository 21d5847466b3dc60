//! Golden tests: the same parts in the same order, byte for byte.

use orchestrator_ingester_protocols::{
    Outcome,
    cbors::encode_event,
    pandabox::PandaBox,
    sardana::{Post, Sardana},
};
use std::{collections::VecDeque, fs};

use crate::tests::captures::{ZMQ_CASES, compare, events, messages, path, recogniser};

#[test]
fn zmq_protocols_give_the_originals_items() {
    for case in ZMQ_CASES {
        let mut recogniser = recogniser(case);
        let mut items = VecDeque::new();
        for message in messages(case) {
            let before = items.len();
            let outcome = recogniser.feed(message.into(), &mut items);
            let created = items.len() - before;
            assert!(created == 0 || outcome == Outcome::Taken, "{case}: {outcome:?} with {created} items");
        }
        compare(case, items);
    }
}

#[test]
fn frame_numbers_are_relative_to_the_first() {
    let numbers = |case: &str| {
        let (mut recogniser, mut items) = (recogniser(case), VecDeque::new());
        messages(case).into_iter().for_each(|message| drop(recogniser.feed(message.into(), &mut items)));
        items.into_iter().map(|item| item.number).collect::<Vec<_>>()
    };
    let of = |numbers: &[u64]| {
        let middle = numbers.iter().copied().map(Some);
        [None].into_iter().chain(middle).chain([None]).collect::<Vec<_>>()
    };
    assert_eq!(numbers("stins-plain"), of(&[0, 1, 2, 3]));
    assert_eq!(numbers("stins-odd"), of(&[0, 2, 5, 6, 7, 8, 11, 1, 3]));
    assert_eq!(numbers("xspress-old"), of(&[0, 1, 2]));
    assert_eq!(numbers("albaem-plain"), of(&[0, 1, 2]));
    assert_eq!(numbers("pcap-plain"), of(&[0, 1, 2, 3, 4, 5]));
    assert_eq!(numbers("contrast-plain"), [None; 8]);
}

#[test]
fn outcomes_separate_invalid_messages_from_those_outside() {
    let count = |case: &str| {
        let (mut recogniser, mut items) = (recogniser(case), VecDeque::new());
        let mut counts = [0; 4];
        for message in messages(case) {
            counts[match recogniser.feed(message.into(), &mut items) {
                Outcome::Taken => 0,
                Outcome::Outside => 1,
                Outcome::Ignored => 2,
                Outcome::Invalid(reason) => {
                    assert!(reason.contains("check what the sender writes"), "{case}: {reason}");
                    3
                }
            }] += 1;
        }
        counts
    };
    assert_eq!(count("stins-plain"), [6, 0, 0, 0]);
    assert_eq!(count("stins-odd"), [11, 6, 0, 15]);
    assert_eq!(count("contrast-plain"), [8, 0, 2, 0]);
    assert_eq!(count("xspress-old"), [11, 0, 0, 0]);
    assert_eq!(count("lecroy-continuous"), [12, 2, 0, 0]);
}

#[test]
fn pandabox_gives_the_originals_items() {
    for case in ["pandabox-plain", "pandabox-odd"] {
        let bytes: Vec<u8> = messages(case).concat().concat();
        for piece in [1, 7, 4096] {
            let (mut panda, mut items) = (PandaBox::default(), VecDeque::new());
            for piece in bytes.chunks(piece) {
                panda.feed(piece, &mut items).expect("a PandABox");
            }
            compare(case, items);
        }
    }
}

#[test]
fn another_server_is_refused() {
    for answer in [b"HTTP/1.1 400 Bad Request\n".to_vec(), vec![b'x'; 2 << 20]] {
        let error = PandaBox::default().feed(&answer, &mut VecDeque::new()).expect_err("no PandABox");
        assert!(error.contains("8889"), "{error}");
    }
}

#[test]
fn sardana_gives_the_originals_items() {
    for case in ["sardana-plain", "sardana-odd"] {
        let (mut machine, mut items) = (Sardana::default(), VecDeque::new());
        let statuses = fs::read_to_string(path(&format!("{case}.status.json"))).expect("statuses");
        let statuses: Vec<(u16, String)> = serde_json::from_str(&statuses).expect("JSON");
        for (parts, (status, _)) in messages(case).iter().zip(statuses) {
            // Content types are tested with the server (tests/ingester/sources.rs).
            let kind = String::from_utf8_lossy(&parts[1]).to_lowercase();
            let json = matches!(&*kind, "" | "application/json" | "application/vnd.x+json; charset=utf-8");
            let post = std::str::from_utf8(&parts[0]).ok().and_then(Post::of_path).filter(|_| json);
            let Some(post) = post else { continue };
            let frame = post.frame(&parts[2]);
            assert_eq!(frame.is_ok(), status == 200, "{}", parts[2].escape_ascii());
            if let Ok(frame) = frame {
                machine.feed(post, frame, &mut items);
            }
        }
        compare(case, items);
    }
}

#[test]
fn dumps_are_written_byte_for_byte_like_the_originals() {
    for case in ZMQ_CASES.iter().chain(&["pandabox-odd", "sardana-odd"]) {
        let mut ours = Vec::new();
        for event in events(case) {
            let streams = event.streams.iter().map(|one| (&*one.name, &*one.typ, &one.frames[..]));
            encode_event(&mut ours, event.number, streams, event.created_at.expect("a time"));
        }
        let theirs = fs::read(path(&format!("{case}.cbors"))).expect("a golden file");
        assert!(ours == theirs, "{case} differs");
    }
}
