//! The reader against an independent one, and what it reads against what was written.

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
        // serde_json refuses numbers beyond a float's range; nothing else that is told apart here.
        prop_assert!(ours == theirs.is_ok() || theirs.is_err_and(|e| e.to_string().contains("out of range")), "{}", text);
    }
}
