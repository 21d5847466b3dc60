//! Output of results. All text of a server or a file is escaped here before it reaches a terminal.

use clap::Args;
use orchestrator_text::{escape_json, is_escaped, sanitize_to};
use serde::Serialize;
use serde_json::{Map, Value};

/// Format of a result: text or JSON.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OutputFormat {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl OutputFormat {
    /// Formats `value` as indented JSON with a line end.
    pub fn print(self, value: &impl Serialize) -> String {
        let json = serde_json::to_string_pretty(value).unwrap_or_default();
        format!("{}\n", escape_json(&json))
    }
}

/// Formats `value` as JSON in one line.
pub fn json(value: &impl Serialize) -> String {
    escape_json(&serde_json::to_string(value).unwrap_or_default()).into_owned()
}

/// Escapes the control and direction characters in `text`, except line ends.
pub fn escape_lines(text: &str) -> String {
    if !text.chars().any(|c| c != '\n' && is_escaped(c)) {
        return text.to_owned();
    }
    text.split('\n').map(escape_line).collect::<Vec<_>>().join("\n")
}

/// Escapes the control and direction characters in `text`, line ends included. The length has no limit.
pub fn escape_line(text: impl AsRef<[u8]>) -> String {
    sanitize_to(text, usize::MAX)
}

/// Escapes all strings and field names in `value`, so that each takes one line.
pub fn escape_strings(value: Value) -> Value {
    match value {
        // A tab would break the alignment of a table.
        Value::String(text) => Value::String(escape_line(text.replace('\t', " "))),
        Value::Array(list) => Value::Array(list.into_iter().map(escape_strings).collect()),
        Value::Object(map) => {
            let field = |(name, value): (String, Value)| (escape_line(name), escape_strings(value));
            Value::Object(map.into_iter().map(field).collect::<Map<_, _>>())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ODD: &str = "a\u{1b}[2J\n\u{9b}31m\u{7f}\u{202e}\u{e0001}\u{e4}";

    #[test]
    fn escaped_json_keeps_its_value_and_has_no_control_characters() {
        let value = json!({ ODD: [ODD, 7, null] });
        let (pretty, line) = (OutputFormat::default().print(&value), json(&value));
        assert!(!pretty.replace('\n', "").contains(is_escaped) && !line.contains(is_escaped), "{pretty}");
        assert_eq!(serde_json::from_str::<Value>(&pretty).unwrap(), value);
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }

    #[test]
    fn strings_become_one_line_and_line_ends_of_texts_are_kept() {
        let shown = "a\\u{1b}[2J\\n\\u{9b}31m\\u{7f}\\u{202e}\\u{e0001}\u{e4}";
        assert_eq!(escape_strings(json!({ ODD: [ODD, 7] })), json!({ shown: [shown, 7] }));
        assert_eq!(escape_lines("a\n\u{1b}b\n"), "a\n\\u{1b}b\n");
    }
}
