//! Valid and invalid replies.

use proptest::prelude::*;

use super::*;

fn bulk(bytes: impl AsRef<[u8]>) -> Value {
    Value::BulkString(bytes.as_ref().to_vec())
}

fn array(values: impl IntoIterator<Item = Value>) -> Value {
    Value::Array(values.into_iter().collect())
}

fn entry_of(id: &str, fields: &[&[u8]]) -> Value {
    array([bulk(id), array(fields.iter().map(bulk))])
}

fn reply(entries: impl IntoIterator<Item = Value>) -> Value {
    array([array([bulk("key"), array(entries)])])
}

#[test]
fn ids_are_ordered_by_number_not_by_text() {
    let id = |text: &str| Id::parse(text.as_bytes()).unwrap();
    assert!(id("9-0") < id("10-0") && id("10-9") < id("10-10"));
    assert_eq!(id("1795178747572-3").to_string(), "1795178747572-3");
    assert_eq!([Id::parse(b""), Id::parse(b"7"), Id::parse(b"a-1"), Id::parse(b"1-\xff")], [None; 4]);
    assert_eq!(Id::default().to_string(), "0-0");
    assert_eq!(id("7-3").next(), id("7-4"));
    assert_eq!(id("7-18446744073709551615").next(), id("8-0"));
}

#[test]
fn an_invalid_entry_is_reported_and_the_others_are_read() {
    let entries = parse_xread(reply([
        entry_of("1-0", &[b"data", b"first"]),
        entry_of("2-0", &[b"\xff", b"x\x1b[2J"]),
        entry_of("3-0", &[]),
        entry_of("4-0", &[b"\xff", &vec![b'y'; 4 << 20], b"data", b"second"]),
        array([bulk("5-0"), array([bulk("data"), array([])])]),
        array([bulk("no id"), array([bulk("data"), bulk("third")])]),
        Value::Int(7),
        array([bulk("8-0"), Value::Nil]),
    ]));
    let entries = entries.unwrap();
    let ids = [Some(Id(1, 0)), Some(Id(2, 0)), Some(Id(3, 0)), Some(Id(4, 0)), Some(Id(5, 0)), None, None];
    assert_eq!(entries.iter().map(|entry| entry.id).take(7).collect::<Vec<_>>(), ids);
    let taken: Vec<_> = entries.iter().filter_map(|entry| entry.data.as_ref().ok()).collect();
    assert_eq!(taken, [b"first".as_slice(), b"second", b"third"]);
    let unexpected: Vec<_> = entries.iter().filter_map(|entry| entry.data.as_ref().err()).collect();
    assert_eq!(
        unexpected,
        [
            "no field `data`: field `\\xff` of 5 bytes begins `x\\u{1b}[2J`",
            "no field `data`",
            "the reply has an array instead of text in field `data`",
            "the reply has an integer instead of an id and fields",
            "no field `data`",
        ]
    );
}

#[test]
fn an_excerpt_is_the_beginning_of_a_value() {
    let long = excerpt(&vec![0xff; 4 << 20], &vec![b'y'; 4 << 20]);
    assert!(long.len() < 512, "{long}");
    assert!(long.contains(&format!("of 4194304 bytes begins `{}`", "y".repeat(64))), "{long}");
}

#[test]
fn replies_of_another_type_are_errors() {
    assert_eq!(parse_xread(Value::Nil), Ok(Vec::new()));
    for unexpected in
        [Value::Int(1), Value::Okay, bulk("x"), array([Value::Int(1)]), array([array([bulk("key")])])]
    {
        assert!(parse_xread(unexpected).is_err());
    }
    assert_eq!(parse_id(&Value::Nil), Ok(None));
    assert_eq!(parse_id(&bulk("4-2")), Ok(Some(Id(4, 2))));
    assert!(parse_id(&array([])).is_err());
    let third = Value::Map(vec![(bulk("key"), array([entry_of("1-0", &[b"data", b"x"])]))]);
    assert_eq!(parse_xread(third).unwrap().len(), 1, "as version 3 of the protocol has it");
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Okay),
        any::<i64>().prop_map(Value::Int),
        prop_oneof![Just(b"data".to_vec()), Just(b"1-1".to_vec()), prop::collection::vec(any::<u8>(), 0..80)]
            .prop_map(Value::BulkString),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((inner.clone(), inner), 0..3).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #[test]
    fn any_reply_is_read_or_refused(reply in value()) {
        let _ = parse_id(&reply);
        for entry in parse_xread(reply.clone()).into_iter().chain(parse_xrange(reply)).flatten() {
            prop_assert!(entry.data.err().is_none_or(|text| text.len() < 2_000));
        }
    }
}
