//! Paths of ERMrest's API (CONTRACT CP01, CP02): names and values are percent-encoded, syntax is
//! not.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters that are encoded: all but the unreserved ones of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a name or a value.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Decodes percent-encoded text; None: not UTF-8.
pub fn decode(encoded: &str) -> Option<String> {
    percent_decode_str(encoded).decode_utf8().ok().map(Into::into)
}

/// Encodes a table, written `table` or `schema:table`.
pub fn table(name: &str) -> String {
    let parts: Vec<_> = name.split(':').map(encode).collect();
    parts.join(":")
}

/// Encodes a list of columns.
pub fn columns<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().map(encode).collect();
    names.join(",")
}

/// Formats a point in time for rows and filters: UTC, with microseconds (CONTRACT CP12).
pub fn instant(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// Parses a point in time of the server: with `T` or a space, and an offset.
pub fn parse_instant(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Limited to the representable range.
pub fn saturating_add(at: Timestamp, later: SignedDuration) -> Timestamp {
    at.checked_add(later).unwrap_or(if later.is_negative() { Timestamp::MIN } else { Timestamp::MAX })
}

/// Converts a duration, limited to the representable range.
pub fn signed(span: Duration) -> SignedDuration {
    SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX)
}

/// Reason why the server would refuse such a path, or receive other bytes.
pub fn problem(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        return Some("it must begin with a slash, as what follows the catalog's base");
    }
    if path.bytes().any(|byte| byte <= b' ' || byte >= 0x7f || b"\"<>\\^`{|}#".contains(&byte)) {
        return Some("percent-encode spaces, quotes and what is not ASCII: a space is %20");
    }
    None
}

/// Key columns of `/attributegroup/PATH/k1,out:=k2;targets`; none for other paths.
pub fn keys_of(update: &str) -> Vec<String> {
    names_of(update, 0)
}

/// Columns that an update path writes, as its rows name them; none for other paths.
pub fn targets_of(update: &str) -> Vec<String> {
    names_of(update, 1)
}

/// Group 0 has the keys, group 1 the targets.
fn names_of(update: &str, index: usize) -> Vec<String> {
    let Some(path) = update.strip_prefix("/attributegroup/") else { return Vec::new() };
    let path = path.split('?').next().unwrap_or_default();
    let Some((_, groups)) = path.rsplit_once('/') else { return Vec::new() };
    let names = groups.split(';').nth(index).unwrap_or_default();
    names
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.split(":=").next().unwrap_or(name))
        .map(|name| decode(name).unwrap_or_else(|| name.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_values_are_percent_encoded() {
        assert_eq!(encode("2026-11-20T12:42:13+00:00"), "2026-11-20T12%3A42%3A13%2B00%3A00");
        assert_eq!(encode("a b\"ü~"), "a%20b%22%C3%BC~");
        assert_eq!(table("my schema:T"), "my%20schema:T");
        assert_eq!(columns(["RID", "a,b"]), "RID,a%2Cb");
    }

    #[test]
    fn points_in_time_are_parsed_in_both_formats() {
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
    fn a_path_that_would_change_in_transit_is_refused() {
        for (path, fine) in [
            ("/entity/Foo/state=actionable?limit=5", true),
            ("/attribute/A:=S:T/(a=any(1,2);!b::null::)/$A/*@sort(RCT,RID::desc::)", true),
            ("entity/Foo", false),
            ("/entity/Foo/name=a b", false),
            ("/entity/Foo/name=\"x\"", false),
            ("/entity/Fö", false),
        ] {
            assert_eq!(problem(path).is_none(), fine, "{path}");
        }
    }

    proptest! {
        #[test]
        fn encoded_text_is_valid_in_a_path(text in ".*") {
            let path = format!("/{}", encode(&text));
            prop_assert_eq!(problem(&path), None);
            prop_assert_eq!(decode(&encode(&text)), Some(text));
        }
    }

    #[test]
    fn keys_are_read_from_the_update() {
        for (update, keys) in [
            ("/attributegroup/Foo/id;state", vec!["id"]),
            ("/attributegroup/S:T/RID,old:=state;new:=state,by", vec!["RID", "old"]),
            ("/attributegroup/T/a%20b,RMT;c?defaults=x", vec!["a b", "RMT"]),
            ("/entity/Foo", vec![]),
            ("/attributegroup/Foo", vec![]),
        ] {
            assert_eq!(keys_of(update), keys, "{update}");
        }
    }
}
