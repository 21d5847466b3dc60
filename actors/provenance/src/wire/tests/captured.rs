//! Bodies captured from the original, encoded and decoded.

use super::*;

const C1: &str = "20329687bb9c1231a7e05afe86160343ad49b494";
const R1: &str = "c0d8929936631ecbcf9147be6b8aa13b13b014e4";
const O1: &str = "3acef14580ea7fd42840ee905c5ce2b0ef9e8175";

fn known(id: &str) -> Sha1Git {
    id.parse().unwrap()
}

fn c2() -> Sha1Git {
    let mut id = [0; 20];
    id[0] = 0x2f;
    Sha1Git(id)
}

fn d1() -> Sha1Git {
    let mut id = [1; 20];
    id[0] = 0x31;
    Sha1Git(id)
}

fn r2() -> Sha1Git {
    let mut id = [2; 20];
    id[0] = 0xc1;
    Sha1Git(id)
}

fn micros(micros: i64) -> Option<Date> {
    Some(Date::from_micros(micros).unwrap())
}

fn check(rows: &Rows, encode: fn(&Rows) -> Bytes, hex: &str) {
    let body = unhex(hex);
    assert_eq!(encode(rows), body, "{rows:?}");
    let decoded = decode(rows.method(), &body).unwrap();
    assert_eq!((&decoded.rows, decoded.malformed), (rows, vec![]));
}

#[test]
fn contents() {
    let head = "81a4646174619192c41420329687bb9c1231a7e05afe86160343ad49b494";
    let contents = |date| Rows::Contents(vec![(known(C1), date)]);
    let bare = "81a4646174619191c41420329687bb9c1231a7e05afe86160343ad49b494";
    check(&contents(None), encode_bare, bare);
    for encode in [encode, encode_bare] {
        check(&contents(micros(1_000_000_000_000_000)), encode, &format!("{head}d6ff3b9aca00"));
        check(&contents(micros(1_000_000_000_123_456)), encode, &format!("{head}d7ff1d6f28003b9aca00"));
        check(&contents(micros(-1_500_000)), encode, &format!("{head}c70cff1dcd6500fffffffffffffffe"));
    }
    check(
        &Rows::Contents(vec![(c2(), None)]),
        encode,
        "81a4646174619192c4142f00000000000000000000000000000000000000c0",
    );
    check(
        &Rows::Contents(vec![
            (known(C1), micros((1 << 34) * 1_000_000)),
            (c2(), micros((1 << 32) * 1_000_000)),
        ]),
        encode,
        "81a4646174619292c41420329687bb9c1231a7e05afe86160343ad49b494c70cff0000000000000004000000009\
         2c4142f00000000000000000000000000000000000000d7ff0000000100000000",
    );
}

#[test]
fn directories_origins_and_locations() {
    check(
        &Rows::Directories(vec![(d1(), micros(5_000_000))]),
        encode,
        "81a4646174619192c4143101010101010101010101010101010101010101d6ff00000005",
    );
    check(
        &Rows::Origins(vec![(known(O1), "https://a/b".to_owned())]),
        encode,
        "81a4646174619192c4143acef14580ea7fd42840ee905c5ce2b0ef9e8175ab68747470733a2f2f612f62",
    );
    let locations = |path: &'static str| Rows::Locations(vec![Bytes::from(path)]);
    check(&locations("a/b"), encode, "81a4646174619191c403612f62");
    check(&locations(""), encode, "81a4646174619191c400");
    check(&locations("."), encode, "81a4646174619191c4012e");
}

#[test]
fn revisions() {
    let revision = |id, date, origin| Rows::Revisions(vec![(id, RevisionData { date, origin })]);
    check(
        &revision(r2(), None, None),
        encode_bare,
        "81a4646174619191c414c102020202020202020202020202020202020202",
    );
    check(
        &revision(known(R1), micros(7_000_000), Some(known(O1))),
        encode,
        "81a4646174619192c414c0d8929936631ecbcf9147be6b8aa13b13b014e482c40773776874797065a964617461636c617373c40164\
         83a464617465d6ff00000007a66f726967696ec4143acef14580ea7fd42840ee905c5ce2b0ef9e8175a85f5f747970655f5fac526\
         5766973696f6e44617461",
    );
    check(
        &revision(known(R1), None, None),
        encode,
        "81a4646174619192c414c0d8929936631ecbcf9147be6b8aa13b13b014e482c40773776874797065a964617461636c617373c40164\
         83a464617465c0a66f726967696ec0a85f5f747970655f5fac5265766973696f6e44617461",
    );
}

#[test]
fn relations() {
    let relation = |relation, src, dst, path: Option<&'static str>| {
        Rows::Relations(relation, vec![RelationRow { src, dst, path: path.map(Bytes::from) }])
    };
    for (rows, hex) in [
        (
            relation(Relation::ContentInRevision, known(C1), known(R1), Some("a/b")),
            "81a4646174619193c41420329687bb9c1231a7e05afe86160343ad49b494c414c0d8929936631ecbcf9147be6b8aa13b13b014e4\
             c403612f62",
        ),
        (
            relation(Relation::ContentInDirectory, known(C1), d1(), Some("a/b")),
            "81a4646174619193c41420329687bb9c1231a7e05afe86160343ad49b494c4143101010101010101010101010101010101010101\
             c403612f62",
        ),
        (
            relation(Relation::DirectoryInRevision, d1(), known(R1), Some(".")),
            "81a4646174619193c4143101010101010101010101010101010101010101c414c0d8929936631ecbcf9147be6b8aa13b13b014e4\
             c4012e",
        ),
        (
            relation(Relation::RevisionInOrigin, known(R1), known(O1), None),
            "81a4646174619193c414c0d8929936631ecbcf9147be6b8aa13b13b014e4c4143acef14580ea7fd42840ee905c5ce2b0ef9e8175\
             c0",
        ),
        (
            relation(Relation::RevisionBeforeRevision, r2(), known(R1), None),
            "81a4646174619193c414c102020202020202020202020202020202020202c414c0d8929936631ecbcf9147be6b8aa13b13b014e4\
             c0",
        ),
    ] {
        check(&rows, encode, hex);
    }
}

#[test]
fn a_full_message_has_the_original_size() {
    let body = encode_bare(&Rows::Contents((0..100).map(|n| (Sha1Git([n; 20]), None)).collect()));
    assert_eq!(body.len(), 2309);
    assert_eq!(body[..12], unhex("81a464617461dc006491c414"));
}
