//! Upper bound of the memory that a decoded response takes. A few bytes of JSON become a map of
//! hundreds, so a body within its limit could take gigabytes.

/// Maximum memory of the decoded rows of one response, in bytes.
const DECODED_MAX: usize = 256 << 20;

/// First node of an object's map, in bytes.
const OBJECT: usize = 900;
/// Share of a member or an element in a node or a growing vector, in bytes.
const ELEMENT: usize = 140;

/// Checks that the decoded rows of `body` take at most [`DECODED_MAX`] bytes.
///
/// # Errors
/// They may take more; the text says what to do.
pub fn check(body: &[u8]) -> Result<(), String> {
    if decoded(body) <= DECODED_MAX {
        return Ok(());
    }
    let limit = DECODED_MAX >> 20;
    Err(format!(
        "the rows of the answer would take more than {limit} MiB of memory: ask for fewer rows at once"
    ))
}

/// Upper bound of the memory for the decoded `body`. JSON is not validated.
fn decoded(body: &[u8]) -> usize {
    // A value may be kept as text, too.
    let (mut sum, mut in_text, mut is_escaped) = (2 * body.len(), false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' => sum += OBJECT,
            b'[' | b',' => sum += ELEMENT,
            _ => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_count_and_text_content_does_not() {
        for (body, weight) in [
            ("", 0),
            ("[]", ELEMENT),
            (r#"[{"a":1,"b":2}]"#, OBJECT + 2 * ELEMENT),
            (r#"["{[,\"{[,\\"]"#, ELEMENT),
            (r#"["\\",2]"#, 2 * ELEMENT),
        ] {
            assert_eq!(decoded(body.as_bytes()), 2 * body.len() + weight, "{body}");
        }
    }

    #[test]
    fn many_rows_are_refused_before_they_are_decoded() {
        let column = (0..20).map(|n| format!("\"column_{n}\":\"some text of a row\"")).collect::<Vec<_>>();
        let row = format!("{{{}}}", column.join(","));
        let body = |rows: usize| format!("[{}]", vec![row.as_str(); rows].join(","));
        assert_eq!(check(body(50_000).as_bytes()), Ok(()));
        let error = check(body(100_000).as_bytes()).expect_err("too many");
        assert!(error.contains("256 MiB"), "{error}");
    }
}
