//! Output of results. Text of a server or a file reaches a terminal only through here.

use clap::Args;
use orchestrator_supervise::{is_escaped, sanitize_to};
use serde::Serialize;
use serde_json::{Map, Value};

/// For people or for programs.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Form {
    /// Print the endpoint's answer as JSON
    #[arg(long)]
    pub json: bool,
}

impl Form {
    /// JSON with a line end.
    pub fn print(self, answer: &impl Serialize) -> String {
        // Values that came as JSON go back to JSON.
        let mut text = plain_ascii(&serde_json::to_string_pretty(answer).unwrap_or_default());
        text.push('\n');
        text
    }
}

/// JSON in one line.
pub fn json(value: &impl Serialize) -> String {
    plain_ascii(&serde_json::to_string(value).unwrap_or_default())
}

/// JSON text with what a terminal obeys as `\u202e`, which is the same value.
fn plain_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && is_escaped(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        } else {
            text.push(c);
        }
    }
    text
}

/// Lines of our own, with what a terminal obeys escaped.
pub fn printable(text: &str) -> String {
    if !text.chars().any(|c| c != '\n' && is_escaped(c)) {
        return text.to_owned();
    }
    text.split('\n').map(one_line).collect::<Vec<_>>().join("\n")
}

/// A text of a server or a file in one line, of any length.
pub fn one_line(text: impl AsRef<[u8]>) -> String {
    sanitize_to(text, usize::MAX)
}

/// An answer whose strings, names of fields included, are in one line each.
pub fn escaped(answer: Value) -> Value {
    match answer {
        // Tables have always shown a tab as a blank.
        Value::String(text) => Value::String(one_line(text.replace('\t', " "))),
        Value::Array(list) => Value::Array(list.into_iter().map(escaped).collect()),
        Value::Object(map) => {
            let field = |(name, value): (String, Value)| (one_line(name), escaped(value));
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
    fn json_has_the_same_value_and_nothing_that_a_terminal_obeys() {
        let value = json!({ ODD: [ODD, 7, null] });
        let (pretty, line) = (Form::default().print(&value), json(&value));
        assert!(!pretty.replace('\n', "").contains(is_escaped) && !line.contains(is_escaped), "{pretty}");
        assert_eq!(serde_json::from_str::<Value>(&pretty).unwrap(), value);
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
    }

    #[test]
    fn strings_are_one_line_and_our_lines_stay_lines() {
        let shown = "a\\u{1b}[2J\\n\\u{9b}31m\\u{7f}\\u{202e}\\u{e0001}\u{e4}";
        assert_eq!(escaped(json!({ ODD: [ODD, 7] })), json!({ shown: [shown, 7] }));
        assert_eq!(printable("a\n\u{1b}b\n"), "a\n\\u{1b}b\n");
    }
}
