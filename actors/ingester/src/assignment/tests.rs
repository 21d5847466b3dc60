//! Tests of the readers of entries; the fast one against the general one.

use proptest::prelude::*;
use smallvec::smallvec;

use super::*;

fn reader(streams: &[&str]) -> Reader {
    Reader::new(streams.iter().map(|stream| (*stream).into()).collect())
}

#[test]
fn own_streams_are_read_in_configured_order() {
    let entry = br#"[{"event_number":0,"assignments":{"pcap":["w1","w2"],"eiger":["w1"],"other":["w9"]}},
        {"event_number":1,"assignments":{"other":["w2"]}},{"event_number":2,"assignments":{"eiger":[]}}]"#;
    let read = reader(&["eiger", "pcap"]).read(entry).unwrap();
    assert_eq!(
        read,
        [
            Assignment {
                event: 0,
                streams: smallvec![(0, smallvec!["w1".into()]), (1, smallvec!["w1".into(), "w2".into()])]
            },
            Assignment { event: 2, streams: smallvec![(0, smallvec![])] },
        ]
    );
}

#[test]
fn worker_names_are_interned_and_escapes_decoded() {
    let mut reader = reader(&["a\"b"]);
    let entry = br#"[{"event_number":7,"assignments":{"a\"b":["w1"]}},{"event_number":8,"assignments":{"a\"b":["w1"]}}]"#;
    let read = reader.read(entry).unwrap();
    assert!(Arc::ptr_eq(&read[0].streams[0].1[0], &read[1].streams[0].1[0]));
}

fn event() -> impl Strategy<Value = String> {
    let workers = prop::collection::vec(prop_oneof!["w[0-3]", "w \\\\u00e9", "é"], 0..3).prop_map(|names| {
        format!("[{}]", names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(","))
    });
    let stream =
        prop_oneof![4 => Just("eiger"), 2 => Just("pcap"), 2 => Just("other"), 1 => Just("ei\\u0067er")];
    let streams = prop::collection::vec((stream, workers), 0..3).prop_map(|streams| {
        let each: Vec<_> =
            streams.iter().map(|(stream, workers)| format!("\"{stream}\":{workers}")).collect();
        format!("\"assignments\":{{{}}}", each.join(","))
    });
    let number = prop_oneof![8 => "[1-9][0-9]{0,18}", 1 => Just("0".to_owned()), 1 => "0[0-9]", 1 => "1e2"];
    let number = number.prop_map(|number| format!("\"event_number\":{number}"));
    (streams, number, 0..9, prop_oneof![6 => Just(""), 1 => Just(" ")]).prop_map(
        |(streams, number, form, space)| match form {
            0 => format!("{{{streams}}}"),
            1 => format!("{{{number},{streams},{number}}}"),
            2 => format!("{{{number},\"x\":1,{streams}}}"),
            3..=5 => format!("{{{streams},{space}{number}}}"),
            _ => format!("{{{number},{space}{streams}}}"),
        },
    )
}

proptest! {
    /// Compares both readers wherever the fast one accepts the entry.
    #[test]
    fn the_fast_reader_agrees_with_the_general_one(
        events in prop::collection::vec(event(), 0..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut entry = format!("[{}]", events.join(",")).into_bytes();
        if let Some(cut) = cut {
            entry.truncate(cut.index(entry.len()));
        }
        let mut reader = reader(&["eiger", "pcap"]);
        if let Some(quick) = plain::read(&mut reader.0, &entry) {
            prop_assert_eq!(reader.read_any(&entry).ok(), Some(quick));
        }
    }
}

#[test]
fn a_controllers_entry_takes_the_fast_path() {
    let entry = br#"[{"event_number":0,"assignments":{"eiger":["w1"],"other":["w2"]}},{"event_number":10,"assignments":{}}]"#;
    let read = plain::read(&mut reader(&["eiger"]).0, entry).unwrap();
    assert_eq!(read, [Assignment { event: 0, streams: smallvec![(0, smallvec!["w1".into()])] }]);
}

#[test]
fn a_malformed_entry_is_refused() {
    for entry in [&b""[..], b"{}", b"[{}]", br#"[{"event_number":-1,"assignments":{}}]"#] {
        assert!(reader(&["eiger"]).read(entry).is_err());
    }
}
