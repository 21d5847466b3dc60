//! Occurrences, and the JSON that receivers get. No I/O.

use serde_json::{Value, json};

use crate::config::Occasion;

/// Longest JSON of an occurrence, in bytes. An attribute path has at most 64 KiB, and six bytes for each when escaped.
const JSON_MAX: usize = 512 << 10;

/// Something that a hook reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Occurrence {
    pub(crate) on: Occasion,
    /// Identifier, the same in each delivery.
    pub(crate) id: String,
    /// JSON object on one line.
    pub(crate) json: String,
}

impl Occurrence {
    /// Creates an occurrence with the facts of `data`. Too long ones are left out.
    pub(crate) fn new(id: String, on: Occasion, at_ms: u64, data: &Value) -> Self {
        let document = |data: &Value| json!({ "id": id, "on": on.name(), "at_ms": at_ms, "data": data });
        let whole = document(data).to_string();
        let json = if whole.len() > JSON_MAX { document(&Value::Null).to_string() } else { whole };
        Self { on, id, json }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_is_one_bounded_line() {
        let new = |data| Occurrence::new("x1".to_owned(), Occasion::QueueFailed, 5, &data);
        let json = new(json!({ "attr_path": "a\nb" })).json;
        assert_eq!(json, r#"{"at_ms":5,"data":{"attr_path":"a\nb"},"id":"x1","on":"queue.failed"}"#);
        let json = new(json!("\0".repeat(100_000))).json;
        assert_eq!(json, r#"{"at_ms":5,"data":null,"id":"x1","on":"queue.failed"}"#);
    }
}
