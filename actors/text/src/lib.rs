//! Escaping and limiting of text from peers, files and operators, for terminals and logs, and the names of
//! schema formats for times.

use std::{borrow::Cow, fmt::Write};

/// Longest text in a reason, note, event or log field, in bytes.
pub const TEXT_MAX: usize = 512;

/// Schema format of a time in unix seconds: `#[schemars(extend("format" = TIME))]`.
pub const TIME: &str = "unix-time";
/// Schema format of a number that need not be a time: it is shown as one if it is plausible as unix seconds
/// or nanoseconds.
pub const NUMBER_OR_TIME: &str = "number-or-unix-time";
/// Bytes reserved for the number of omitted bytes.
const REST_MAX: usize = " (18446744073709551615 bytes left out)".len();

/// Escapes `text` for terminals and logs and limits the result to [`TEXT_MAX`] bytes.
///
/// Control characters (C0, DEL, C1), characters that hide or reorder others (U+202E, U+200B and similar) and
/// bytes that are not UTF-8 are written as `\n`, `\u{202e}` and `\xff`. A longer text is cut after a
/// character, and ends with the number of omitted bytes. Applying it twice changes nothing.
///
/// ```
/// use orchestrator_text::sanitize;
/// assert_eq!(sanitize("refused:\n\u{1b}[31mno"), "refused:\\n\\u{1b}[31mno");
/// assert_eq!(sanitize(b"key \xff"), "key \\xff");
/// assert!(sanitize("x".repeat(3_000_000)).ends_with("x (2999526 bytes left out)"));
/// ```
pub fn sanitize(text: impl AsRef<[u8]>) -> String {
    sanitize_to(text, TEXT_MAX)
}

/// Escapes `text` as [`sanitize`] and limits the result to `max` bytes.
pub fn sanitize_to(text: impl AsRef<[u8]>, max: usize) -> String {
    let text = text.as_ref();
    let mut out = String::with_capacity(text.len().min(max) + 8);
    // Ends, in the result and in the source, of the last piece that leaves room for the number.
    let (mut fits, mut taken) = (0, 0);
    let mut read = 0;
    // No piece gets shorter, so later bytes cannot fit.
    let head = &text[..text.len().min(max.saturating_add(4))];
    for chunk in head.utf8_chunks() {
        let characters = chunk.valid().chars().map(|c| (c.len_utf8(), Piece::Char(c)));
        let invalid = chunk.invalid().iter().map(|byte| (1, Piece::Byte(*byte)));
        for (length, piece) in characters.chain(invalid) {
            piece.write(&mut out);
            read += length;
            if out.len() > max {
                out.truncate(fits);
                let _ = write!(out, " ({} bytes left out)", text.len() - taken);
                return out;
            }
            if out.len() + REST_MAX <= max {
                (fits, taken) = (out.len(), read);
            }
        }
    }
    out
}

/// True for characters that control a terminal, end a log line, or hide or reorder other characters.
pub fn is_escaped(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes characters of a JSON document that JSON allows unescaped: DEL, C1 and the others of
/// [`is_escaped`]. The values stay the same.
///
/// ```
/// use orchestrator_text::escape_json;
/// assert_eq!(escape_json("{\"name\":\"gpj.\u{202e}exe\"}"), r#"{"name":"gpj.\u202eexe"}"#);
/// ```
pub fn escape_json(json: &str) -> Cow<'_, str> {
    // Most documents are ASCII. Decoding their characters takes most of the time of a listing's lines.
    if json.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r')) {
        return Cow::Borrowed(json);
    }
    // White space between values stays.
    let hidden = |c: char| is_escaped(c) && !c.is_ascii_whitespace();
    if !json.contains(hidden) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

enum Piece {
    Char(char),
    Byte(u8),
}

impl Piece {
    fn write(self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Char(c) if is_escaped(c) => write!(out, "{}", c.escape_default()),
            Self::Char(c) => out.write_char(c),
            Self::Byte(byte) => write!(out, "\\x{byte:02x}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_escaped_and_others_kept() {
        for (text, shown) in [
            ("plain \u{e4}\u{1f600} C:\\n", "plain \u{e4}\u{1f600} C:\\n"),
            ("a\nb\r\tc\0", "a\\nb\\r\\tc\\u{0}"),
            ("\u{1b}[2J\u{9b}31m\u{7f}", "\\u{1b}[2J\\u{9b}31m\\u{7f}"),
            (
                "gpj.\u{202e}exe\u{2066}\u{200b}\u{2028}\u{feff}",
                "gpj.\\u{202e}exe\\u{2066}\\u{200b}\\u{2028}\\u{feff}",
            ),
        ] {
            assert_eq!(sanitize(text), shown);
        }
        assert_eq!(sanitize(b"\xff\xc3x\xc3\xa4"), "\\xff\\xc3x\u{e4}");
    }

    #[test]
    fn a_text_above_the_limit_is_cut_at_a_character() {
        let whole = "x".repeat(TEXT_MAX);
        assert_eq!(sanitize(&whole), whole);
        let cut = sanitize("\u{e4}".repeat(TEXT_MAX));
        assert!(cut.len() <= TEXT_MAX && cut.ends_with("\u{e4} (550 bytes left out)"), "{cut}");
        assert_eq!(sanitize_to("abc", 2), " (3 bytes left out)", "the number is always written");
    }

    #[test]
    fn json_keeps_its_values() {
        let name = "a\n\u{1b}\u{9b}\u{7f}\u{202e}\u{e0041}\u{e4}";
        let json = format!("{:#}", serde_json::json!({ "name": [name] }));
        let escaped = escape_json(&json);
        assert!(!escaped.chars().any(|c| is_escaped(c) && c != '\n'), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap()["name"][0], name);
        assert!(matches!(escape_json("{\n\t\"a\": 1}"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn the_result_is_bounded_printable_and_stable(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            let once = sanitize(&bytes);
            prop_assert!(once.len() <= TEXT_MAX);
            prop_assert!(!once.chars().any(is_escaped));
            prop_assert_eq!(sanitize(&once), once.clone());
        }
    }
}
