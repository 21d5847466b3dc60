//! Paths of the catalog's API (CONTRACT CP01, CP02): what is syntax stays as it is, what is a name or a value is percent-encoded.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A name or a value as it stands in a path: all but the unreserved characters of RFC 3986 is encoded, by UTF-8 bytes.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The text that stands percent-encoded in a path; None: it is no text.
pub fn decode(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// A table as people write it, `table` or `schema:table`.
pub fn table(name: &str) -> String {
    let parts: Vec<_> = name.split(':').map(encode).collect();
    parts.join(":")
}

/// Columns, separated by commas.
pub fn columns<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().map(encode).collect();
    names.join(",")
}

/// A point in time as rows and filters have it: UTC, microseconds, always as long.
pub fn instant(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// A point in time as the server wrote it: with `T` or a space, and an offset.
pub fn parse_instant(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// `later` than `at`; what is beyond all time is its end.
pub fn after(at: Timestamp, later: SignedDuration) -> Timestamp {
    at.checked_add(later).unwrap_or(if later.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}

/// A span of the kernel's clock as one of the calendar.
pub fn signed(span: Duration) -> SignedDuration {
    SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX)
}

/// What must be wrong with a path that people wrote, if anything: the server would refuse it, or it would not arrive as written.
pub fn complaint(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        return Some("it must begin with a slash, as what follows the catalog's base");
    }
    if path.bytes().any(|byte| byte <= b' ' || byte >= 0x7f || b"\"<>\\^`{|}#".contains(&byte)) {
        return Some("percent-encode spaces, quotes and what is not ASCII: a space is %20");
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_values_are_encoded_and_syntax_is_not() {
        assert_eq!(encode("2026-11-20T12:42:13+00:00"), "2026-11-20T12%3A42%3A13%2B00%3A00");
        assert_eq!(encode("a b\"ü~"), "a%20b%22%C3%BC~");
        assert_eq!(table("my schema:T"), "my%20schema:T");
        assert_eq!(columns(["RID", "a,b"]), "RID,a%2Cb");
    }

    #[test]
    fn a_point_in_time_is_read_back_in_either_form() {
        let at: Timestamp = "2026-11-20T12:42:13.9Z".parse().expect("a time");
        assert_eq!(instant(at), "2026-11-20T12:42:13.900000+00:00");
        for text in
            ["2026-11-20T12:42:13.9+00:00", "2026-11-20 12:42:13.900000+00:00", "2026-11-20T04:42:13.9-08:00"]
        {
            assert_eq!(parse_instant(text), Some(at), "{text}");
        }
        assert_eq!(parse_instant("soon"), None);
    }

    #[test]
    fn a_path_that_would_not_arrive_as_written_is_told() {
        for (path, fine) in [
            ("/entity/Foo/state=actionable?limit=5", true),
            ("/attribute/A:=S:T/(a=any(1,2);!b::null::)/$A/*@sort(RCT,RID::desc::)", true),
            ("entity/Foo", false),
            ("/entity/Foo/name=a b", false),
            ("/entity/Foo/name=\"x\"", false),
            ("/entity/Fö", false),
        ] {
            assert_eq!(complaint(path).is_none(), fine, "{path}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_encoded_can_stand_in_a_path(text in ".*") {
            let path = format!("/{}", encode(&text));
            prop_assert_eq!(complaint(&path), None);
            prop_assert_eq!(decode(&encode(&text)), Some(text));
        }
    }
}
