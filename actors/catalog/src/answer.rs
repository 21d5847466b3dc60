//! What a handler answered, read as the fields of a row, and shown to people where it cannot be.

use std::fmt::Write;

use serde_json::Value;

use crate::handling::Row;

/// How much of an answer that cannot be read is shown, characters.
const SHOWN: usize = 80;

/// The fields that an answer has: it is a JSON object, or nothing at all.
///
/// # Errors
/// It is something else; the text shows its beginning.
pub fn fields(answer: &[u8]) -> Result<Row, String> {
    let answer = answer.trim_ascii();
    if answer.is_empty() {
        return Ok(Row::new());
    }
    match serde_json::from_slice(answer) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(format!("`{}`: answer with one JSON object, or with nothing", excerpt(answer))),
        // What is wrong where: with one text of many lines, that is not seen from its beginning.
        Err(error) => {
            Err(format!("`{}`, which is no JSON ({error}): answer with one object", excerpt(answer)))
        }
    }
}

/// The beginning of what somebody said, on one line.
fn excerpt(bytes: &[u8]) -> String {
    // A character has four bytes at the most, and a sequence that is none becomes one character.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN)]);
    let shown: String = text.chars().take(SHOWN).collect();
    let more = if shown.len() < text.len() || bytes.len() > 4 * SHOWN { ".." } else { "" };
    format!("{}{more}", printable(&shown, false))
}

/// What somebody said, for a log or a column: without the white space around it, and with nothing that a terminal obeys or a
/// database refuses.
pub fn quoted(bytes: &[u8]) -> String {
    printable(String::from_utf8_lossy(bytes).trim(), true)
}

/// `text` with its control characters escaped; `lines` are left as they are.
fn printable(text: &str, lines: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !(lines && matches!(c, '\n' | '\t')) {
            // A String takes whatever is written into it.
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
        assert_eq!(
            Value::Object(fields("{\"size\": 3,\n \"name\": \"\u{e4}\"}\n".as_bytes()).unwrap()),
            wanted
        );
    }

    #[test]
    fn what_is_no_object_is_shown_in_short() {
        for (answer, shown) in [
            (b"[1]".as_slice(), "`[1]`: answer with one JSON object"),
            (b"done\n", "`done`, which is no JSON"),
            (b"{\"a\": 1}{}", "`{\"a\": 1}{}`, which is no JSON"),
            (b"\x1b[31m\0\xff", "`\\u{1b}[31m\\u{0}\u{fffd}`, which is no JSON"),
            (b"two\nlines", "`two\\nlines`, which is no JSON"),
        ] {
            let text = fields(answer).unwrap_err();
            assert!(text.starts_with(shown), "{text}");
        }
        for long in [vec![b'x'; 10_000], vec![0xff; 10_000], "\u{1f600}".repeat(5_000).into_bytes()] {
            let text = fields(&long).unwrap_err();
            assert!(text.chars().count() < 200 && text.contains("..`"), "{text}");
        }
        assert!(!fields(&[b'x'; SHOWN]).unwrap_err().contains("..`"));
    }

    #[test]
    fn what_was_said_keeps_its_lines_and_loses_what_terminals_obey() {
        assert_eq!(quoted(b" Traceback:\n\tfile 1\x1b[2J\0\n"), "Traceback:\n\tfile 1\\u{1b}[2J\\u{0}");
    }
}
