//! Routing policy: the tables of the contract, and the examples of CONTRACT PP05, PP06.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::row::{RelationRow, RevisionData, Rows, Sha1Git};

fn id(first: u8) -> Sha1Git {
    let mut id = [0x99; 20];
    id[0] = first;
    Sha1Git(id)
}

fn digits(ranges: impl Iterator<Item = Range>) -> String {
    ranges.map(|range| range.to_string()).collect()
}

#[test]
fn both_routings_agree_with_the_contract() {
    let full: Sha1Git = "c0d8929936631ecbcf9147be6b8aa13b13b014e4".parse().unwrap();
    let of_id = |routing: Routing, id: Sha1Git| routing.range_of_id(&id).to_string();
    let of_path = |routing: Routing, path: &str| routing.range_of_path(path.as_bytes()).to_string();
    for (routing, of_full, dot, empty) in
        [(Routing::FirstByte, "0", "a", "a"), (Routing::FirstHexDigit, "c", "3", "d")]
    {
        assert_eq!(of_id(routing, full), of_full);
        assert_eq!(of_path(routing, "."), dot);
        assert_eq!(of_path(routing, ""), empty);
    }
    assert_eq!(of_path(Routing::FirstHexDigit, "a/b"), "3");
    for byte in 0..=255 {
        let hex = format!("{byte:02x}");
        assert_eq!(of_id(Routing::FirstHexDigit, id(byte)), hex[..1]);
        assert_eq!(of_id(Routing::FirstByte, id(byte)), hex[1..]);
    }
}

#[test]
fn routings_have_their_configuration_names() {
    for (routing, name) in [(Routing::FirstByte, "first_byte"), (Routing::FirstHexDigit, "first_hex_digit")] {
        assert_eq!(serde_json::to_value(routing).unwrap(), name);
        assert_eq!(serde_json::from_value::<Routing>(name.into()).unwrap(), routing);
    }
    assert_eq!(Routing::default(), Routing::FirstByte);
}

#[test]
fn exchanges_own_the_methods_of_the_contract() {
    let table = [
        (
            Exchange::Content,
            "content_add.unknown relation_add.content_in_revision relation_add.content_in_directory",
            48,
        ),
        (Exchange::Directory, "directory_add.unknown relation_add.directory_in_revision", 32),
        (
            Exchange::Revision,
            "revision_add.unknown relation_add.revision_before_revision relation_add.revision_in_origin",
            48,
        ),
        (Exchange::Origin, "origin_add.unknown", 16),
        (Exchange::Location, "location_add.unknown", 16),
    ];
    assert_eq!(Exchange::ALL, table.map(|row| row.0));
    let mut names = BTreeSet::new();
    for (of, prefixes, queues) in table {
        let found: Vec<String> = methods(of).iter().map(Method::to_string).collect();
        assert_eq!(found.join(" "), prefixes);
        assert!(methods(of).iter().all(|&method| exchange(method) == of));
        let workers = Worker::all().filter(|worker| worker.exchange == of);
        let keys: BTreeSet<String> =
            workers.flat_map(Worker::queues).map(|(method, range)| binding_key(method, range)).collect();
        assert_eq!(keys.len(), queues, "{}", of.name());
        names.extend(keys);
    }
    assert_eq!(names.len(), 160);
    assert!(names.contains("relation_add.content_in_revision.0") && names.contains("content_add.unknown.a"));
}

#[test]
fn a_method_or_its_relation_begins_with_its_exchange() {
    for method in Method::ALL {
        let text = method.relation().map_or(method.name(), Relation::value);
        assert_eq!(exchange(method).name(), text.split('_').next().unwrap(), "{method}");
    }
}

#[test]
fn workers_are_in_the_order_of_the_pool() {
    let all: Vec<Worker> = Worker::all().collect();
    assert_eq!(all.len(), 80);
    for (index, worker) in all.iter().enumerate() {
        assert_eq!((worker.index(), Worker::at(index)), (index, Some(*worker)));
    }
    assert_eq!(Worker::at(80), None);
    let labels =
        [(0, "content_0"), (10, "content_a"), (17, "directory_1"), (47, "revision_f"), (48, "origin_0")];
    for (index, label) in labels.into_iter().chain([(79, "location_f")]) {
        assert_eq!(all[index].to_string(), label);
    }
    for (index, exchange) in Exchange::ALL.into_iter().enumerate() {
        assert_eq!(exchange as usize, index);
    }
}

#[test]
fn range_sets_are_parsed() {
    for (text, expected, canonical) in [
        ("0-7", "01234567", "0-7"),
        ("0-f", "0123456789abcdef", "0-f"),
        ("3", "3", "3"),
        ("0-3,8", "01238", "0-3,8"),
        (" 8 , 0-3 ", "01238", "0-3,8"),
        ("f", "f", "f"),
        ("5-5,4", "45", "4-5"),
        ("0-9,5-c", "0123456789abc", "0-c"),
    ] {
        let set: RangeSet = text.parse().unwrap();
        assert_eq!(digits(set.iter()), expected, "{text}");
        assert_eq!(set.to_string(), canonical);
    }
    assert_eq!("0-f".parse(), Ok(RangeSet::ALL));
    assert!(RangeSet::NONE.is_empty() && RangeSet::NONE.to_string() == "none");
}

#[test]
fn an_invalid_range_set_is_refused() {
    for (text, expected) in [
        ("", "no range is named: write hex digits and spans of them, for example 0-7,c, or none"),
        ("7-0", "the span 7-0 runs backwards: write 0-7"),
        ("0,,1", "\"\" is not a range: write lower-case hex digits and spans of them, for example 0-7,c"),
        ("0-F", "\"0-F\" is not a range: write lower-case hex digits and spans of them, for example 0-7,c"),
        ("10", "\"10\" is not a range: write lower-case hex digits and spans of them, for example 0-7,c"),
        (
            "0-1-2",
            "\"0-1-2\" is not a range: write lower-case hex digits and spans of them, for example 0-7,c",
        ),
        ("-", "\"-\" is not a range: write lower-case hex digits and spans of them, for example 0-7,c"),
        ("é", "\"é\" is not a range: write lower-case hex digits and spans of them, for example 0-7,c"),
    ] {
        assert_eq!(text.parse::<RangeSet>().unwrap_err().to_string(), expected);
        assert!(serde_json::from_value::<RangeSet>(text.into()).is_err());
    }
    assert_eq!("A".parse::<Range>().unwrap_err().to_string(), "a range is one lower-case hex digit, 0 to f");
}

#[test]
fn rows_are_split_in_order() {
    let row = |first| (id(first), None);
    let rows = Rows::Contents(vec![row(0xc0), row(0x2f), row(0x10), row(0xc0)]);
    assert_eq!(
        split(rows, Routing::FirstByte),
        [
            (Range::ALL[0], Rows::Contents(vec![row(0xc0), row(0x10), row(0xc0)])),
            (Range::ALL[15], Rows::Contents(vec![row(0x2f)])),
        ]
    );
    let paths =
        |paths: &[&'static str]| Rows::Locations(paths.iter().map(|&path| Bytes::from(path)).collect());
    assert_eq!(
        split(paths(&[".", ""]), Routing::FirstHexDigit),
        [(Range::ALL[3], paths(&["."])), (Range::ALL[13], paths(&[""]))]
    );
    let relation = |first| RelationRow { src: id(first), dst: id(0xff), path: None };
    let rows = Rows::Relations(Relation::RevisionInOrigin, vec![relation(0x21)]);
    assert_eq!(split(rows.clone(), Routing::FirstHexDigit), [(Range::ALL[2], rows)]);
    for method in Method::ALL {
        assert_eq!(split(Rows::none(method), Routing::FirstByte), []);
    }
}

proptest! {
    #[test]
    fn splitting_keeps_all_rows_and_their_ranges(
        firsts in prop::collection::vec(any::<u8>(), 0..200),
        hex in any::<bool>(),
    ) {
        let routing = if hex { Routing::FirstHexDigit } else { Routing::FirstByte };
        let rows = |firsts: &[u8]| {
            Rows::Revisions(firsts.iter().map(|&first| (id(first), RevisionData::default())).collect())
        };
        let of = |first: &u8| routing.range_of_id(&id(*first));
        let mut expected = Vec::new();
        for range in Range::ALL {
            let own: Vec<u8> = firsts.iter().copied().filter(|first| of(first) == range).collect();
            if !own.is_empty() {
                expected.push((range, rows(&own)));
            }
        }
        prop_assert_eq!(split(rows(&firsts), routing), expected);
    }

    #[test]
    fn range_sets_round_trip(ranges in prop::collection::btree_set(0_usize..16, 1..17)) {
        let set: RangeSet = ranges.into_iter().map(|index| Range::ALL[index]).collect();
        prop_assert_eq!(set.to_string().parse::<RangeSet>(), Ok(set));
    }
}
