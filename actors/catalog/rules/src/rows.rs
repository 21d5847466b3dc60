//! Rows of the catalog, and the bodies of requests that have them.

mod weight;

use std::collections::BTreeMap;

use bytes::Bytes;
use orchestrator_text::sanitize_to;

use crate::cell::{Cell, NULL};

pub use weight::check as check_weight;

/// A row: its columns and their values.
pub type Row = BTreeMap<String, Cell>;

/// Text that is the same for rows with the same values of `keys`.
pub fn key(row: &Row, keys: &[String]) -> String {
    let values: Vec<_> = keys.iter().map(|name| row.get(name).unwrap_or(&NULL)).collect();
    serde_json::to_string(&values).unwrap_or_default()
}

/// Parses the rows of a response. Of repeated members the last counts.
///
/// # Errors
/// Not a JSON array of objects, or too large once decoded.
pub fn rows(body: &[u8]) -> Result<Vec<Row>, String> {
    weight::check(body)?;
    serde_json::from_slice(body).map_err(|error| {
        // The error's text may repeat a value of any length.
        let error = sanitize_to(error.to_string(), 200);
        format!("the answer is no JSON array of rows ({error}): see that the path is one of rows")
    })
}

/// Serializes rows as the body of a write.
pub fn body_of<R: serde::Serialize>(rows: &[R]) -> Bytes {
    // Rows come from JSON, so they can be serialized.
    serde_json::to_vec(rows).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_of_repeated_members_counts() {
        let read = rows(br#"[{"RID":"1","state":"a","RID":"2"}]"#).expect("rows");
        assert_eq!(read, [serde_json::from_value(json!({ "RID": "2", "state": "a" })).expect("a row")]);
    }

    #[test]
    fn numbers_are_written_with_the_digits_that_were_read() {
        let long = format!("1{}", "0".repeat(320));
        let body = format!(
            r#"[{{"id":1,"v":12345678901234567890.123456789,"w":18446744073709551616,"x":1.10,"y":{long},"z":[1.10]}}]"#
        );
        let read = rows(body.as_bytes()).expect("rows");
        assert_eq!(body_of(&read), body);
    }
}
