//! Items that the original's clients do not send: accepted forms and refused ones.

use super::*;

/// 20 equal bytes.
fn raw(byte: &str) -> String {
    format!("c414{}", byte.repeat(20))
}

fn id(byte: u8) -> Sha1Git {
    Sha1Git([byte; 20])
}

fn body(items: &[&str]) -> Bytes {
    let items: Vec<Bytes> = items.iter().map(|item| unhex(item)).collect();
    encoding::body(items.len(), &items.concat())
}

fn date_of(value: &str) -> Result<Option<i64>, ItemError> {
    let decoded = decode(Method::ContentAdd, &body(&[&format!("92{}{value}", raw("01"))])).unwrap();
    match decoded.rows {
        Rows::Contents(rows) if rows.len() == 1 => Ok(rows[0].1.map(Date::micros)),
        _ => Err(decoded.malformed[0].reason),
    }
}

/// A tagged date of old senders, with its keys in either order.
fn iso(text: &str, swapped: bool) -> String {
    let text: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let name = "c40773776874797065a86461746574696d65";
    let payload = format!("c40164d9{:02x}{text}", text.len() / 2);
    if swapped { format!("82{payload}{name}") } else { format!("82{name}{payload}") }
}

#[test]
fn timestamps_of_all_sizes_are_rounded_down_to_microseconds() {
    for (value, micros) in [
        ("c0", None),
        ("d6ffffffffff", Some(4_294_967_295_000_000)),
        ("c704ff00000005", Some(5_000_000)),
        ("d7ff0000000000000005", Some(5_000_000)),
        ("d7ff00000fa000000005", Some(5_000_001)),
        ("d7ff00000f9c00000005", Some(5_000_000)),
        ("c70cff1dcd6500fffffffffffffffe", Some(-1_500_000)),
        ("c70cff3b9ac9ffffffffffffffffff", Some(-1)),
        ("c70cff000003e7ffffffffffffffff", Some(-1_000_000)),
        ("c70cff00000000fffffff1886e0900", Some(Date::MIN.micros())),
        ("c70cff3b9ac9ff0000003afff4417f", Some(Date::MAX.micros())),
    ] {
        assert_eq!(date_of(value), Ok(micros), "{value}");
    }
    for (value, error) in [
        ("c70cff3b9ac9fffffffff1886e08ff", ItemError::DateRange),
        ("c70cff000000000000003afff44180", ItemError::DateRange),
        ("c70cff000000007fffffffffffffff", ItemError::DateRange),
        ("c70cff000000008000000000000000", ItemError::DateRange),
        ("c70cff3b9aca000000000000000000", ItemError::Date),
        ("d7ffffffffff00000000", ItemError::Date),
        ("d4ff00", ItemError::Date),
        ("d600 00000005", ItemError::Date),
        ("d601 00000005", ItemError::Date),
        ("05", ItemError::Date),
        ("a130", ItemError::Date),
        ("80", ItemError::Date),
        ("90", ItemError::Date),
    ] {
        assert_eq!(date_of(value), Err(error), "{value}");
    }
}

#[test]
fn dates_of_old_senders_are_text() {
    for (text, micros) in [
        ("1970-01-01T00:00:05+00:00", 5_000_000),
        ("1970-01-01T00:00:05Z", 5_000_000),
        ("1970-01-01T00:00:05", 5_000_000),
        ("1970-01-01 00:00:05", 5_000_000),
        ("1970-01-01", 0),
        ("1970-01-01T02:00:00.000001+02:00", 1),
        ("1969-12-31T23:59:59.999999-00:30", 1_799_999_999),
        ("1969-12-31T23:59:59.9999999", -1),
        ("1970-01-01T00:09:21+00:09:21", 0),
        ("0001-01-01T00:00:00+00:00", Date::MIN.micros()),
        ("9999-12-31T23:59:59.999999+00:00", Date::MAX.micros()),
    ] {
        for swapped in [false, true] {
            assert_eq!(date_of(&iso(text, swapped)), Ok(Some(micros)), "{text}");
        }
    }
    for text in ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "0000-06-01T00:00:00Z"] {
        assert_eq!(date_of(&iso(text, false)), Err(ItemError::DateRange), "{text}");
    }
    for text in ["", "now", "1970-13-01", "1970-01-01T00:00:00Z[Europe/Paris]", "1970-01-01T00:00:05Z "] {
        assert_eq!(date_of(&iso(text, false)), Err(ItemError::Date), "{text}");
    }
    assert_eq!(date_of(&iso(&"1".repeat(65), false)), Err(ItemError::Date));
    // Another tag, and a str in place of a bin tag.
    assert_eq!(date_of("82c40773776874797065a474657874c40164a0"), Err(ItemError::Date));
    assert_eq!(
        date_of("82a773776874797065a86461746574696d65a164aa313937302d30312d3031"),
        Err(ItemError::Date)
    );
}

#[test]
fn a_message_can_mix_short_and_long_items() {
    let (a, b) = (raw("0a"), raw("0b"));
    let items = [format!("91{a}"), format!("92{b}d6ff00000005"), format!("92{a}c0"), format!("dc0001{b}")];
    let decoded = decode(Method::DirectoryAdd, &body(&items.each_ref().map(String::as_str))).unwrap();
    let five = Date::from_micros(5_000_000);
    let expected = vec![(id(10), None), (id(11), five), (id(10), None), (id(11), None)];
    assert_eq!((decoded.rows, decoded.malformed), (Rows::Directories(expected), vec![]));
}

#[test]
fn positions_count_malformed_items() {
    let good = format!("91{}", raw("01"));
    let items = ["c0", &good, &good, "90", "91c40101", &good, "80", &good];
    let body = body(&items);
    let decoded = decode(Method::ContentAdd, &body).unwrap();
    let shape = ItemError::Shape("an id and a date or nil");
    let malformed: Vec<_> = decoded.malformed.iter().map(|item| (item.position, item.reason)).collect();
    assert_eq!(malformed, [(0, shape), (3, shape), (4, ItemError::Id), (6, shape)]);
    assert_eq!(decoded.rows.len(), 4);
    assert_eq!([0, 1, 2, 3].map(|row| decoded.positions.of(row)), [1, 2, 5, 7]);
    assert_eq!(excerpt(&body, &[4, 0, 3, 6, 99]), Ok(self::body(&["c0", "90", "91c40101", "80"])));
}

#[test]
fn malformed_items_are_refused_by_themselves() {
    let id = raw("01");
    let relation = Method::RelationAdd(Relation::ContentInRevision);
    for (method, item, error) in [
        (Method::ContentAdd, format!("93{id}c0c0"), ItemError::Shape("an id and a date or nil")),
        (Method::ContentAdd, "91b4".to_owned() + &"61".repeat(20), ItemError::Id),
        (Method::ContentAdd, "91c415".to_owned() + &"01".repeat(21), ItemError::Id),
        (Method::OriginAdd, format!("91{id}"), ItemError::Shape("an id and a url")),
        (Method::OriginAdd, format!("92{id}c40161"), ItemError::Url),
        (Method::OriginAdd, format!("92{id}a1ff"), ItemError::Url),
        (Method::OriginAdd, format!("92{id}c0"), ItemError::Url),
        (Method::LocationAdd, "91a161".to_owned(), ItemError::Path),
        (Method::LocationAdd, "91c0".to_owned(), ItemError::Path),
        (Method::LocationAdd, "c40161".to_owned(), ItemError::Shape("one path")),
        (relation, format!("92{id}{id}"), ItemError::Shape("source, destination and path or nil")),
        (relation, format!("94{id}{id}c400c0"), ItemError::Shape("source, destination and path or nil")),
        (relation, format!("93{id}c0c400"), ItemError::Id),
        (relation, format!("93{id}{id}a161"), ItemError::Path),
        (Method::RevisionAdd, format!("92{id}d6ff00000005"), ItemError::RevisionData),
        (Method::RevisionAdd, format!("92{id}80"), ItemError::RevisionData),
    ] {
        let decoded = decode(method, &body(&[&item])).unwrap();
        assert_eq!(decoded.malformed, [Malformed { position: 0, reason: error }], "{item}");
        assert!(decoded.rows.is_empty());
    }
    let nul = decode(Method::OriginAdd, &body(&[&format!("92{id}a100")])).unwrap();
    assert_eq!(nul.rows, Rows::Origins(vec![(self::id(1), "\0".to_owned())]));
}

#[test]
fn revision_data_has_its_fields_in_any_order() {
    let (id, name, tag) = (raw("01"), "c40773776874797065a964617461636c617373", "c40164");
    let (class, origin, date) =
        ("a85f5f747970655f5fac5265766973696f6e44617461", "a66f726967696ec0", "a464617465d6ff00000007");
    let read = |data: String| decode(Method::RevisionAdd, &body(&[&format!("92{id}{data}")])).unwrap();
    let seven = RevisionData { date: Date::from_micros(7_000_000), origin: None };
    for data in [
        format!("82{name}{tag}83{date}{origin}{class}"),
        format!("82{tag}83{class}{date}{origin}{name}"),
        format!("de0002{tag}83{origin}{class}{date}{name}"),
    ] {
        assert_eq!(read(data).rows, Rows::Revisions(vec![(self::id(1), seven)]));
    }
    assert_eq!(read("c0".to_owned()).rows, Rows::Revisions(vec![(self::id(1), RevisionData::default())]));
    let other = "a85f5f747970655f5fac52656c6174696f6e44617461";
    for data in [
        format!("82{name}{tag}82{date}{class}"),
        format!("82{name}{tag}82{date}{origin}"),
        format!("82{name}{tag}83{date}{origin}{other}"),
        format!("82{name}{tag}84{date}{origin}{class}a178c0"),
        format!("82{name}{name}"),
        format!("83{name}{tag}83{date}{origin}{class}c400c0"),
        format!("82c40773776874797065a474657874{tag}83{date}{origin}{class}"),
    ] {
        let decoded = read(data);
        assert_eq!(decoded.malformed, [Malformed { position: 0, reason: ItemError::RevisionData }]);
    }
}
