//! Occurrences, and the JSON that receivers get. No I/O.

use serde_json::{Value, json};

use crate::config::HookEventKind;

/// Longest JSON of an occurrence, in bytes.
const JSON_MAX: usize = 32 << 10;
/// Lengths that texts are cut to, in bytes: the first with which the JSON is short enough. A byte takes six
/// when escaped.
const TEXT_MAX: [usize; 3] = [4 << 10, 512, 64];
/// End of a text that was cut.
const CUT: &str = "…";

/// Something that a hook reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutboxEvent {
    pub(crate) on: HookEventKind,
    /// Identifier, the same in each delivery.
    pub(crate) id: String,
    /// JSON object on one line.
    pub(crate) json: String,
}

impl OutboxEvent {
    /// Creates an occurrence with the facts of `data`. Long texts are cut, and end with [`CUT`]; `cut` in the
    /// document is true then. Data that is too long nevertheless is null.
    pub(crate) fn new(id: String, on: HookEventKind, at_ms: u64, data: &Value) -> Self {
        let document = |data: &Value| json!({ "id": id, "on": on.name(), "at_ms": at_ms, "data": data });
        let with_cut = |data: &Value| {
            let mut document = document(data);
            document["cut"] = true.into();
            document.to_string()
        };
        let bounded = TEXT_MAX.into_iter().find_map(|max| {
            let (mut bounded, mut is_cut) = (data.clone(), false);
            cut(&mut bounded, max, &mut is_cut);
            let json = if is_cut { with_cut(&bounded) } else { document(&bounded).to_string() };
            (json.len() <= JSON_MAX).then_some(json)
        });
        Self { on, json: bounded.unwrap_or_else(|| with_cut(&Value::Null)), id }
    }
}

/// Cuts the texts in `value` to `max` bytes, and sets `is_cut` if there are longer ones.
fn cut(value: &mut Value, max: usize, is_cut: &mut bool) {
    match value {
        Value::String(text) if text.len() > max => {
            text.truncate(text.floor_char_boundary(max));
            text.push_str(CUT);
            *is_cut = true;
        }
        Value::Array(values) => values.iter_mut().for_each(|value| cut(value, max, is_cut)),
        Value::Object(fields) => fields.values_mut().for_each(|value| cut(value, max, is_cut)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_is_one_bounded_line() {
        let new = |data| OutboxEvent::new("x1".to_owned(), HookEventKind::QueueFailed, 5, &data);
        let json = new(json!({ "attr_path": "a\nb" })).json;
        assert_eq!(json, r#"{"at_ms":5,"data":{"attr_path":"a\nb"},"id":"x1","on":"queue.failed"}"#);
        let json = new(json!({ "attr_path": "ü".repeat(50_000), "exit_code": 3 })).json;
        let attr_path = format!("{}…", "ü".repeat(2_048));
        let document: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["data"], json!({ "attr_path": attr_path, "exit_code": 3 }));
        assert_eq!(document["cut"], true);
        let json = new(json!({ "row": vec!["\0".repeat(100_000); 20] })).json;
        assert!(json.contains(&format!("\"{}…\"", "\\u0000".repeat(64))) && json.len() <= JSON_MAX, "{json}");
        let json = new(json!(vec![0; 100_000])).json;
        assert_eq!(json, r#"{"at_ms":5,"cut":true,"data":null,"id":"x1","on":"queue.failed"}"#);
    }
}
