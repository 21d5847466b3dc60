//! Import lines and their errors, and query results as JSON.

use serde_json::json;

use super::*;

const ID: &str = "20329687bb9c1231a7e05afe86160343ad49b494";

fn id() -> Sha1Git {
    ID.parse().unwrap()
}

#[test]
fn each_kind_of_row_is_parsed() {
    let date = Date::from_micros(-1_500_000);
    let with_date = json!({"add": "content", "id": ID, "date": "1969-12-31T23:59:58.5Z"});
    assert_eq!(read(with_date), Ok(Rows::Contents(vec![(id(), date)])));
    let nanoseconds = json!({"add": "content", "id": ID, "date": "1969-12-31T23:59:59.9999995Z"});
    let before_1970 = Date::from_micros(-1);
    assert_eq!(read(nanoseconds), Ok(Rows::Contents(vec![(id(), before_1970)])), "rounded down");
    let bare = json!({"add": "revision", "id": ID});
    assert_eq!(read(bare), Ok(Rows::Revisions(vec![(id(), RevisionData::default())])));
    let origin = json!({"add": "origin", "url": "https://a/b"});
    let named: Sha1Git = "6ceea27924608c9ae55f8592999de10cf8e00eb7".parse().unwrap();
    assert_eq!(read(origin), Ok(Rows::Origins(vec![(named, "https://a/b".to_owned())])));
    let location = json!({"add": "location", "path_hex": "ff00"});
    assert_eq!(read(location), Ok(Rows::Locations(vec![Bytes::from_static(&[0xff, 0])])));
    for relation in Relation::ALL {
        let mut value = json!({"add": relation.value(), "src": ID, "dst": ID});
        let path = relation.has_path().then(|| Bytes::from_static(b"a/b"));
        if path.is_some() {
            value["path"] = json!("a/b");
        }
        let row = RelationRow { src: id(), dst: id(), path };
        assert_eq!(read(value), Ok(Rows::Relations(relation, vec![row])));
    }
}

#[test]
fn import_lines_round_trip() {
    let path = |path: &'static [u8]| Bytes::from_static(path);
    let mut all = vec![
        Rows::Contents(vec![(id(), Date::from_micros(-1)), (Sha1Git([0; 20]), None)]),
        Rows::Directories(vec![(id(), Some(Date::MIN)), (Sha1Git([1; 20]), Some(Date::MAX))]),
        Rows::Revisions(vec![
            (id(), RevisionData { date: Date::from_micros(7), origin: Some(Sha1Git([2; 20])) }),
            (id(), RevisionData::default()),
        ]),
        Rows::Origins(vec![(id(), "https://a\0".to_owned())]),
        Rows::Locations(vec![path(b""), path(b"a/b"), path(b"\xff\0")]),
    ];
    all.extend(Relation::ALL.map(|relation| {
        let path = relation.has_path().then(|| path(b"\xfe"));
        Rows::Relations(relation, vec![RelationRow { src: id(), dst: Sha1Git([3; 20]), path }])
    }));
    for rows in all {
        let mut found = Rows::none(rows.method());
        for line in import_lines(&rows) {
            assert!(found.append(read(line).unwrap()).is_ok());
        }
        assert_eq!(found, rows);
    }
}

#[test]
fn a_malformed_line_is_refused_with_the_reason() {
    for (value, words) in [
        (json!({"add": "content", "id": "2032"}), "40 hex digits"),
        (json!({"add": "content", "id": ID, "date": "yesterday"}), "write it like"),
        (json!({"add": "content", "id": ID, "when": "x"}), "when"),
        (json!({"add": "person", "id": ID}), "person"),
        (json!({"add": "location"}), "needs a path"),
        (json!({"add": "location", "path": "a", "path_hex": "61"}), "exclude"),
        (json!({"add": "location", "path_hex": "6"}), "hex"),
        (json!({"add": "content_in_revision", "src": ID, "dst": ID}), "has a path"),
        (json!({"add": "revision_in_origin", "src": ID, "dst": ID, "path": "a"}), "has no path"),
        (json!("content"), "content"),
    ] {
        let error = read(value.clone()).unwrap_err();
        assert!(error.contains(words), "{value}: {error}");
    }
}

#[test]
fn query_results_are_shown_as_json() {
    let date = Date::from_micros(1_000_000_000_123_456);
    let found =
        Occurrence { content: id(), revision: id(), date, origin: None, path: Bytes::from_static(b"a\xff") };
    let shown = json!(OccurrenceRow::all_of(QueryResult::Occurrences(vec![found])).unwrap());
    let expected = json!([{"content": ID, "revision": ID, "date": "2001-09-09T01:46:40.123456Z", "origin": null, "path_hex": "61ff"}]);
    assert_eq!(shown, expected);
    for (date, written) in [(Date::MIN, "0001-01-01T00:00:00Z"), (Date::MAX, "9999-12-31T23:59:59.999999Z")] {
        let shown = Attributes::of(QueryResult::Dates(BTreeMap::from([(id(), date)]))).unwrap();
        assert_eq!(json!(shown), json!({ ID: written }));
        assert_eq!(serde_json::from_value::<Attributes>(json!({ ID: written })).unwrap(), shown);
        assert_eq!(Date::try_from(written.to_owned()), Ok(date));
    }
}
