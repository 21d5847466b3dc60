//! `orchestrator config print`: the effective configuration as TOML, each key with the source of its value.
//! Secrets are hidden.

use config::{Value, ValueKind};
use toml::{Table, Value as Toml};

use orchestrator_text::is_escaped;

use super::report::one_line;
use orchestrator_subsystem::redaction::redact;

/// Formats `effective`, the configuration from `merged` and the defaults without secrets. Apart from these,
/// the text is a configuration with the same result; the address of the admin endpoint is then one that is
/// set, and must be free.
pub(super) fn print(effective: &serde_json::Value, merged: &Value) -> anyhow::Result<String> {
    let mut text = String::new();
    section("", &Table::try_from(effective)?, Some(merged), &mut text);
    Ok(text)
}

/// Adds the source of each key, by its dotted path.
pub(super) fn json(effective: serde_json::Value, merged: &Value) -> serde_json::Value {
    let mut sources = serde_json::Map::new();
    add_sources("", &effective, Some(merged), &mut sources);
    serde_json::json!({ "config": effective, "sources": sources })
}

fn add_sources(
    path: &str,
    value: &serde_json::Value,
    merged: Option<&Value>,
    sources: &mut serde_json::Map<String, serde_json::Value>,
) {
    match value {
        serde_json::Value::Object(table) => {
            for (key, value) in table {
                let path = if path.is_empty() { toml_key(key) } else { format!("{path}.{}", toml_key(key)) };
                add_sources(&path, value, merged.and_then(|merged| inside(merged, key)), sources);
            }
        }
        serde_json::Value::Array(entries) if entries.iter().any(serde_json::Value::is_object) => {
            for (index, entry) in entries.iter().enumerate() {
                let merged = merged.and_then(|merged| nth(merged, index));
                add_sources(&format!("{path}[{index}]"), entry, merged, sources);
            }
        }
        _ => {
            let origin = merged.and_then(Value::origin).unwrap_or("default");
            sources.insert(path.to_owned(), one_line(redact(origin)).into());
        }
    }
}

fn section(path: &str, table: &Table, merged: Option<&Value>, text: &mut String) {
    let inner = |key: &str| merged.and_then(|merged| inside(merged, key));
    let (sections, keys): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| is_section(value));
    for (key, value) in keys {
        let origin = inner(key).and_then(Value::origin).unwrap_or("default");
        text.push_str(&format!(
            "{} = {}  # {}\n",
            toml_key(key),
            toml_value(value),
            one_line(redact(origin))
        ));
    }
    for (key, value) in sections {
        let path = if path.is_empty() { toml_key(key) } else { format!("{path}.{}", toml_key(key)) };
        match value {
            Toml::Table(table) => {
                header(&format!("[{path}]"), text);
                section(&path, table, inner(key), text);
            }
            entries => {
                for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
                    header(&format!("[[{path}]]"), text);
                    let merged = inner(key).and_then(|merged| nth(merged, index));
                    entry.as_table().into_iter().for_each(|entry| section(&path, entry, merged, text));
                }
            }
        }
    }
}

fn header(line: &str, text: &mut String) {
    let gap = if text.is_empty() { "" } else { "\n" };
    text.push_str(&format!("{gap}{line}\n"));
}

fn is_section(value: &Toml) -> bool {
    match value {
        Toml::Table(_) => true,
        Toml::Array(entries) => !entries.is_empty() && entries.iter().all(Toml::is_table),
        _ => false,
    }
}

fn inside<'a>(merged: &'a Value, key: &str) -> Option<&'a Value> {
    match &merged.kind {
        ValueKind::Table(table) => table.get(key),
        _ => None,
    }
}

fn nth(merged: &Value, index: usize) -> Option<&Value> {
    match &merged.kind {
        ValueKind::Array(array) => array.get(index),
        _ => None,
    }
}

/// Formats a key as TOML.
pub(super) fn toml_key(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { key.to_owned() } else { toml_string(key) }
}

/// Formats a value as TOML in one line, with control and direction characters escaped.
pub(super) fn toml_value(value: &Toml) -> String {
    match value {
        Toml::String(text) => toml_string(text),
        Toml::Array(entries) => {
            format!("[{}]", entries.iter().map(toml_value).collect::<Vec<_>>().join(", "))
        }
        Toml::Table(table) if !table.is_empty() => {
            let pairs = table.iter().map(|(key, value)| format!("{} = {}", toml_key(key), toml_value(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn toml_string(text: &str) -> String {
    if !text.contains(is_escaped) {
        return Toml::String(text.to_owned()).to_string();
    }
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        c if is_escaped(c) => format!("\\U{:08X}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_parse_to_the_same_value() {
        for text in ["plain", "a\"b\\c'", "\u{1b}[2J\n\t\r\u{9b}31m", "x\u{202e}y\u{e0001}'\"\\"] {
            let value = Toml::Array(vec![Toml::String(text.to_owned()), Toml::Integer(7)]);
            let line = format!("x = {}", toml_value(&value));
            assert!(!line.contains(is_escaped), "{line}");
            assert_eq!(line.parse::<Table>().unwrap()["x"], value, "{line}");
        }
        let table: Table = "x = { a = 1, \"b c\" = ['\u{200b}'] }".parse().unwrap();
        let line = format!("x = {}", toml_value(&table["x"]));
        assert_eq!((line.parse::<Table>().unwrap(), line.contains(is_escaped)), (table, false), "{line}");
    }
}
