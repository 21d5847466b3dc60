//! `orchestrator config print`: the configuration in force as TOML, each key with where its value comes from. A catalog's `token`
//! is not shown.

use config::{Value, ValueKind};
use toml::{Table, Value as Toml};

use super::{
    Config,
    report::{HIDDEN, SECRET, one_line},
    schema::{Rule, Schema},
};

/// `config`, which `merged` and the defaults led to. The text is a configuration that leads to the same again, but for a secret
/// in it.
pub(super) fn print(config: &Config, merged: &Value, schema: &Schema) -> anyhow::Result<String> {
    let mut text = String::new();
    section("", &Table::try_from(config)?, Some(merged), Some(schema.root()), &mut text);
    Ok(text)
}

fn section(path: &str, table: &Table, merged: Option<&Value>, rule: Option<Rule<'_>>, text: &mut String) {
    let inner = |key: &str| merged.and_then(|merged| inside(merged, key));
    let (sections, keys): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| is_section(value));
    for (key, value) in keys {
        let origin = inner(key).and_then(Value::origin).unwrap_or("default");
        // A column of that name is none: the schema knows no columns.
        let secret = key == SECRET && rule.and_then(|rule| rule.key(key)).is_some();
        let value = if secret { &Toml::String(HIDDEN.to_owned()) } else { value };
        text.push_str(&format!("{} = {value}  # {}\n", written(key), one_line(origin)));
    }
    for (key, value) in sections {
        let rule = rule.and_then(|rule| rule.key(key));
        let path = if path.is_empty() { written(key) } else { format!("{path}.{}", written(key)) };
        match value {
            Toml::Table(table) => {
                header(&format!("[{path}]"), text);
                section(&path, table, inner(key), rule, text);
            }
            entries => {
                for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
                    header(&format!("[[{path}]]"), text);
                    let merged = inner(key).and_then(|merged| match &merged.kind {
                        ValueKind::Array(array) => array.get(index),
                        _ => None,
                    });
                    let rule = rule.and_then(Rule::item);
                    entry.as_table().into_iter().for_each(|entry| section(&path, entry, merged, rule, text));
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

/// A key as TOML has it.
fn written(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { key.to_owned() } else { Toml::String(key.to_owned()).to_string() }
}
