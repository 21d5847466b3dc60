//! Round trips of bodies; captured and hostile bodies are in the modules.

mod captured;
mod hostile;
mod malformed;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{
    method::Relation,
    row::{Date, RelationRow, RevisionData, Sha1Git},
};

fn unhex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn ids() -> impl Strategy<Value = Sha1Git> {
    any::<[u8; 20]>().prop_map(Sha1Git)
}

fn dates() -> impl Strategy<Value = Option<Date>> {
    let all = Date::MIN.micros()..=Date::MAX.micros();
    let micros = prop_oneof![all, -3_000_000_i64..3_000_000, (0_i64..1 << 35).prop_map(|s| s * 1_000_000)];
    prop::option::of(micros.prop_map(|micros| Date::from_micros(micros).unwrap()))
}

fn paths() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from)
}

fn rows() -> impl Strategy<Value = Rows> {
    let data = (dates(), prop::option::of(ids())).prop_map(|(date, origin)| RevisionData { date, origin });
    let relation =
        (ids(), ids(), prop::option::of(paths())).prop_map(|(src, dst, path)| RelationRow { src, dst, path });
    prop_oneof![
        prop::collection::vec((ids(), dates()), 0..20).prop_map(Rows::Contents),
        prop::collection::vec((ids(), dates()), 0..20).prop_map(Rows::Directories),
        prop::collection::vec((ids(), data), 0..20).prop_map(Rows::Revisions),
        prop::collection::vec((ids(), ".{0,50}"), 0..20).prop_map(Rows::Origins),
        prop::collection::vec(paths(), 0..20).prop_map(Rows::Locations),
        (prop::sample::select(Relation::ALL.to_vec()), prop::collection::vec(relation, 0..20))
            .prop_map(|(relation, rows)| Rows::Relations(relation, rows)),
    ]
}

proptest! {
    #[test]
    fn encoded_rows_are_decoded(rows in rows(), bare in any::<bool>()) {
        let body = if bare { encode_bare(&rows) } else { encode(&rows) };
        let decoded = decode(rows.method(), &body).unwrap();
        prop_assert_eq!((&decoded.rows, decoded.malformed.len()), (&rows, 0));
        prop_assert_eq!(decoded.positions.of(7), 7);
    }

    #[test]
    fn an_excerpt_has_the_chosen_items(rows in rows(), mut chosen in prop::collection::vec(0_u32..25, 0..9)) {
        let body = encode(&rows);
        let part = excerpt(&body, &chosen).unwrap();
        let decoded = decode(rows.method(), &part).unwrap();
        chosen.retain(|&position| (position as usize) < rows.len());
        chosen.sort_unstable();
        chosen.dedup();
        prop_assert_eq!(decoded.rows.len(), chosen.len());
        prop_assert_eq!(encode(&decoded.rows), part);
        for (at, &position) in chosen.iter().enumerate() {
            prop_assert_eq!(excerpt(&body, &[position]), excerpt(&encode(&decoded.rows), &[at as u32]));
        }
        let all: Vec<u32> = (0..rows.len() as u32).rev().collect();
        prop_assert_eq!(excerpt(&body, &all), Ok(body));
    }

    #[test]
    fn responses_round_trip(n in prop_oneof![any::<u64>(), 0_u64..300]) {
        prop_assert_eq!(decode_ack(&encode_ack(n)), Ok(n));
    }
}

#[test]
fn a_response_is_one_number() {
    for (n, body) in [(1, "01"), (2, "02"), (100, "64"), (0, "00"), (200, "cc c8"), (65536, "ce 00010000")] {
        assert_eq!(encode_ack(n), unhex(body));
    }
    for (body, n) in [
        ("d0 05", 5),
        ("d1 0005", 5),
        ("d3 0000000000000005", 5),
        ("cf ffffffffffffffff", u64::MAX),
        ("d4 01 05", 5),
        ("c7 00 01", 0),
        ("c7 09 01 00ffffffffffffffff", u64::MAX),
    ] {
        assert_eq!(decode_ack(&unhex(body)), Ok(n), "{body}");
    }
    for body in [
        "",
        "ff",
        "d0 ff",
        "0101",
        "c0",
        "cd 01",
        "91 01",
        "d4 02 05",
        "d4 03 05",
        "c7 09 01 010000000000000000",
    ] {
        assert_eq!(decode_ack(&unhex(body)), Err(super::ack::InvalidAck), "{body}");
    }
}
