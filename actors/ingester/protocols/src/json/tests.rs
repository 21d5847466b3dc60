//! Tests of the parser against serde_json, and round trips of strings.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn strings_are_read_as_written(text in any::<String>()) {
        let written = serde_json::to_string(&[&text]).unwrap();
        let escaped: String = written.chars().map(|c| match c {
            c if c.is_ascii() => c.to_string(),
            c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        }).collect();
        for written in [written, escaped] {
            let wrapped = format!("{{\"x\":{written}}}");
            let object = Object::parse(wrapped.as_bytes()).unwrap();
            let read = object.get("x").unwrap().elements().unwrap().next().unwrap().string().unwrap();
            prop_assert_eq!(&*read, &*text);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}\",:0-9eE.+a-u\\\\ -]{0,40}") {
        let ours = Object::parse(text.as_bytes()).is_some();
        let theirs = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
        // serde_json also refuses numbers beyond a float's range.
        prop_assert!(ours == theirs.is_ok() || theirs.is_err_and(|e| e.to_string().contains("out of range")), "{}", text);
    }
}

#[test]
fn an_object_has_a_limited_number_of_members() {
    let object = |count: usize| format!("{{{}}}", vec![r#""a":1"#; count].join(","));
    assert!(Object::parse(object(MEMBERS_MAX).as_bytes()).is_some());
    assert!(Object::parse(object(MEMBERS_MAX + 1).as_bytes()).is_none());
    let nested = format!("{{\"x\":{}}}", object(MEMBERS_MAX + 1));
    assert!(Object::parse(nested.as_bytes()).unwrap().get("x").unwrap().members().is_none());
}

#[test]
fn an_object_has_a_limited_number_of_levels() {
    for (open, close) in [("[", "]"), ("{\"x\":", "}")] {
        let nested =
            |levels: usize| format!("{{\"x\":{}0{}}}", open.repeat(levels - 1), close.repeat(levels - 1));
        assert!(Object::parse(nested(DEPTH).as_bytes()).is_some());
        assert!(Object::parse(nested(DEPTH + 1).as_bytes()).is_none());
    }
}

#[test]
fn a_member_is_found_by_its_key_with_or_without_escapes() {
    let object = Object::parse(br#"{"n\u0061me":1,"names":2,"\u0078":3,"x\n":4}"#).unwrap();
    for (name, value) in
        [("name", Some("1")), ("names", Some("2")), ("x", Some("3")), ("x\n", Some("4")), ("y", None)]
    {
        assert_eq!(object.get(name).map(|raw| raw.text()), value, "{name:?}");
    }
}

#[test]
fn levels_are_counted_outside_of_strings() {
    for (text, levels) in [
        (&br#"{"a":[1,[2]],"b":{}}"#[..], 3),
        (br#"{"[[[\"[[":"]"}"#, 1),
        (b"7", 0),
        (b"]]]]", 0),
        (&[b'['; 1_000], 255),
    ] {
        assert_eq!(depth(text), levels);
    }
}
