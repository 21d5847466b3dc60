//! Parsing of handlers' answers, and their quotation in error texts.

use std::fmt::Write;

use orchestrator_text::{is_escaped, sanitize_to};

use crate::rows::Row;

/// Maximum length of a quoted unreadable answer, in bytes.
const SHOWN: usize = 120;

/// Parses an answer: one JSON object, or nothing.
///
/// # Errors
/// The answer is something else; the text quotes its beginning.
pub fn fields(answer: &[u8]) -> Result<Row, String> {
    let answer = answer.trim_ascii();
    if answer.is_empty() {
        return Ok(Row::new());
    }
    match serde_json::from_slice(answer) {
        Ok(fields) => Ok(fields),
        Err(error) if error.is_data() => {
            Err(format!("`{}`: answer with one JSON object, or with nothing", sanitize_to(answer, SHOWN)))
        }
        // serde's error names line and column, which the quoted beginning may not show.
        Err(error) => Err(format!(
            "`{}`, which is no JSON ({error}): answer with one object",
            sanitize_to(answer, SHOWN)
        )),
    }
}

/// Converts a message to text for a database column: trimmed, line breaks kept, control characters
/// escaped.
pub fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) && !matches!(c, '\n' | '\t') {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_or_nothing_is_an_answer() {
        assert_eq!(fields(b"").unwrap(), Row::new());
        assert_eq!(fields(b" \r\n").unwrap(), Row::new());
        let wanted = json!({"size": 3, "name": "\u{e4}"});
        let answer = fields("{\"size\": 3,\n \"name\": \"\u{e4}\"}\n".as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(answer).unwrap(), wanted);
    }

    #[test]
    fn an_answer_that_is_not_an_object_is_quoted_in_short() {
        for (answer, shown) in [
            (b"[1]".as_slice(), "`[1]`: answer with one JSON object"),
            (b"done\n", "`done`, which is no JSON"),
            (b"{\"a\": 1}{}", "`{\"a\": 1}{}`, which is no JSON"),
            (b"\x1b[31m\0\xff", "`\\u{1b}[31m\\u{0}\\xff`, which is no JSON"),
            (b"two\nlines", "`two\\nlines`, which is no JSON"),
        ] {
            let text = fields(answer).unwrap_err();
            assert!(text.starts_with(shown), "{text}");
        }
        for long in [vec![b'x'; 10_000], vec![0xff; 10_000], "\u{1f600}".repeat(5_000).into_bytes()] {
            let text = fields(&long).unwrap_err();
            assert!(text.chars().count() < 200 && text.contains("bytes left out)`"), "{text}");
        }
        assert!(!fields(&[b'x'; SHOWN]).unwrap_err().contains("left out"));
    }

    #[test]
    fn quoted_text_keeps_lines_and_escapes_control_characters() {
        assert_eq!(quoted(b" Traceback:\n\tfile 1\x1b[2J\0\n"), "Traceback:\n\tfile 1\\u{1b}[2J\\u{0}");
        assert_eq!(quoted("gpj.\u{202e}exe".as_bytes()), "gpj.\\u{202e}exe");
    }
}
