//! TOML text of a configuration: every key of the schema with its description, commented out unless its value
//! differs from the default.

use orchestrator_subsystem::redaction::redact;
use serde_json::{Map, Value, json};
use toml::Value as Toml;

use crate::{
    config::{
        print::{toml_key, toml_value},
        report::one_line,
        schema::Rule,
    },
    subsystems::Section,
};

/// Width of comments, in characters.
const WIDTH: usize = 100;
/// Sections of the program itself.
const PROGRAM: [&str; 4] = ["admin", "telemetry", "links", "hook"];

/// Contents of the text.
pub(super) struct Document<'a> {
    pub(super) program: &'a str,
    /// Source of the values, if they are not an example.
    pub(super) from: Option<&'a str>,
    pub(super) sections: &'a [Section],
    /// The whole configuration.
    pub(super) values: &'a Value,
    /// Lines about values that could not be taken over.
    pub(super) notes: &'a [String],
}

impl Document<'_> {
    /// `root` is the rule of the whole configuration.
    pub(super) fn to_toml(&self, root: Rule<'_>) -> String {
        let mut text = Text::default();
        text.comment(&format!("Configuration of orchestrator in place of {}.", self.program));
        if let Some(from) = self.from {
            text.comment(&format!("Values are from {from}."));
        }
        text.comment("Keys that are commented out show their defaults, or a placeholder if they are unset.");
        self.notes.iter().for_each(|note| text.comment(&one_line(redact(note))));
        for name in self.sections.iter().map(|section| section.name()).chain(PROGRAM) {
            let Some((rule, value)) = root.key(name).zip(self.values.get(name)) else { continue };
            // The admin endpoint is what `orchestrator tree` asks.
            let is_active = name == "admin" || !PROGRAM.contains(&name) || differs(value, rule);
            text.section(name, rule, Some(value), is_active);
        }
        text.0
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    /// Adds a comment, wrapped at [`WIDTH`]. List items stay on lines of their own.
    fn comment(&mut self, comment: &str) {
        for paragraph in comment.replace("\n- ", "\n\n- ").split("\n\n") {
            let mut line = String::from("#");
            for word in paragraph.split_whitespace() {
                if line.chars().count() + 1 + word.chars().count() > WIDTH && line.len() > 1 {
                    self.line(&line);
                    line = String::from("#");
                }
                line.push(' ');
                line.push_str(word);
            }
            self.line(&line);
        }
    }

    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// Adds a section: a table, or an array of tables.
    fn section(&mut self, path: &str, rule: Rule<'_>, value: Option<&Value>, is_active: bool) {
        let description = rule.keyword("description").and_then(Value::as_str).unwrap_or_default();
        self.line("");
        match rule.item() {
            Some(item) => {
                self.comment(description);
                let entries = value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                for (index, entry) in entries.iter().enumerate() {
                    if index > 0 {
                        self.line("");
                    }
                    self.header(&format!("[[{path}]]"), true);
                    self.table(path, item, Some(entry), true);
                }
                if entries.is_empty() {
                    self.header(&format!("[[{path}]]"), false);
                    self.table(path, item, None, false);
                }
            }
            None => {
                self.comment(description);
                self.header(&format!("[{path}]"), is_active);
                self.table(path, rule, value, is_active);
            }
        }
    }

    fn header(&mut self, header: &str, is_active: bool) {
        self.line(&format!("{}{header}", if is_active { "" } else { "#" }));
    }

    /// Adds the keys of a table, its tables last.
    fn table(&mut self, path: &str, rule: Rule<'_>, value: Option<&Value>, is_active: bool) {
        let mut keys: Vec<_> = rule.keys().filter_map(|key| Some((key, rule.key(key)?))).collect();
        keys.sort_by_key(|(key, rule)| (is_table(*rule), *key != "name", *key));
        let required = rule.keyword("required").and_then(Value::as_array);
        for (key, rule) in keys {
            let value = value.and_then(|value| value.get(key));
            if is_table(rule) {
                let is_active = is_active && value.is_some_and(|value| differs(value, rule));
                self.section(&format!("{path}.{}", toml_key(key)), rule, value, is_active);
                continue;
            }
            self.comment(rule.keyword("description").and_then(Value::as_str).unwrap_or_default());
            let is_required = required.is_some_and(|required| required.contains(&json!(key)));
            match value.filter(|value| is_active && (is_required || differs(value, rule))) {
                Some(value) => self.line(&format!("{} = {}", toml_key(key), inline(value))),
                None => match rule.keyword("default") {
                    Some(default) => self.line(&format!("#{} = {}", toml_key(key), inline(default))),
                    None => {
                        self.line(&format!("#{} = {}  # unset", toml_key(key), inline(&placeholder(rule))))
                    }
                },
            }
        }
    }
}

/// True for a table with known keys, and for an array of such tables.
fn is_table(rule: Rule<'_>) -> bool {
    rule.keys().next().is_some() || rule.item().is_some_and(|item| item.keys().next().is_some())
}

/// True if a value, or one in it, is not the default.
fn differs(value: &Value, rule: Rule<'_>) -> bool {
    match (value, rule.keys().next()) {
        (Value::Object(table), Some(_)) => {
            table.iter().any(|(key, value)| rule.key(key).is_none_or(|rule| differs(value, rule)))
        }
        _ => rule.keyword("default").is_none_or(|default| default != value),
    }
}

fn placeholder(rule: Rule<'_>) -> Value {
    match rule.keyword("type").and_then(Value::as_str) {
        Some("array") => json!([]),
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(0),
        Some("object") => Value::Object(Map::new()),
        _ => json!(""),
    }
}

/// Formats a value in one line.
fn inline(value: &Value) -> String {
    Toml::try_from(value).map_or_else(|_| "\"\"".to_owned(), |value| toml_value(&value))
}
