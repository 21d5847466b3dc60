//! One key and its value, from the command line or the environment, as a tree with one leaf.

use config::{Map, Value, ValueKind};
use toml::de::{DeTable, DeValue};

use super::{
    document,
    report::{Diagnostic, one_line},
    schema::{Rule, Schema},
};
use orchestrator_subsystem::redaction::{REDACTED, may_quote_secret, redact};

/// Reads `SECTION.KEY=VALUE`. `below` holds the merged weaker layers, with entries by name.
pub(super) fn from_set(set: &str, schema: &Schema, below: &Value) -> Result<Value, Diagnostic> {
    let position = shown(set, schema);
    let refuse =
        |text: &str| Diagnostic { position: position.clone(), key: String::new(), text: text.to_owned() };
    let (key, text) = set.split_once('=').ok_or_else(|| refuse("write it as section.key=value"))?;
    let path = keys(key).ok_or_else(|| refuse("the text before = is not a key; write section.key=value"))?;
    tree(&path, text, &position, schema, below)
}

/// Formats the assignment for messages. The value of an unknown key is hidden: the key may be a misspelled
/// one that holds a secret.
fn shown(set: &str, schema: &Schema) -> String {
    let Some((key, value)) = set.split_once('=') else {
        let dotted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '"');
        let end = set.find(|c| !dotted(c)).unwrap_or(set.len());
        let rest = if end < set.len() { REDACTED } else { "" };
        return one_line(format!("--set {}{rest}", &set[..end]));
    };
    let Some(path) = keys(key) else { return format!("--set {REDACTED}") };
    let value = if is_shown(&path, value, schema) { value } else { REDACTED };
    one_line(redact(&format!("--set {key}={value}")))
}

/// `value` is that of the key at `path`.
fn is_shown(path: &[String], value: &str, schema: &Schema) -> bool {
    let mut rule = schema.root();
    for key in path {
        if rule.is_free() {
            break;
        }
        let Some(inner) = rule.named_item().or_else(|| rule.key(key)) else { return false };
        rule = inner;
    }
    match rule.value_format() {
        // A refused address may be little else than a password. `config print` shows an accepted one.
        Some(_) => false,
        None => !rule.needs_redaction() && !may_quote_secret(value),
    }
}

/// Splits a dotted TOML key into its parts.
fn keys(dotted: &str) -> Option<Vec<String>> {
    let line = format!("{dotted} = 0");
    let parsed = DeTable::parse(&line).ok()?;
    let (mut table, mut path) = (parsed.get_ref(), Vec::new());
    loop {
        let mut entries = table.iter();
        let (key, value) = entries.next()?;
        path.push(key.get_ref().clone().into_owned());
        match (value.get_ref(), entries.next()) {
            (DeValue::Table(inner), None) => table = inner,
            (DeValue::Integer(_), None) => return Some(path),
            _ => return None,
        }
    }
}

/// Builds a tree with `text` as the value at `path`.
pub(super) fn tree(
    path: &[String],
    text: &str,
    position: &str,
    schema: &Schema,
    below: &Value,
) -> Result<Value, Diagnostic> {
    let mut at = Cursor { rule: Some(schema.root()), below: Some(below) };
    let mut entries = Vec::new();
    for (depth, key) in path.iter().enumerate() {
        let refuse =
            |text: String| Diagnostic { position: position.to_owned(), key: path[..depth].join("."), text };
        let entry = at.is_entry(key).map_err(refuse)?;
        at = at.descend(key);
        entries.push(entry);
    }
    let mut value = value(text, at.rule, position);
    for (key, entry) in path.iter().zip(entries).rev() {
        let origin = position.to_owned();
        value = if entry {
            let kind = match value.kind {
                ValueKind::Table(table) if table.contains_key("name") => {
                    let text =
                        "the name of an entry cannot be changed here; change it in the file".to_owned();
                    return Err(Diagnostic { position: origin, key: path.join("."), text });
                }
                ValueKind::Table(mut table) => {
                    table.insert("name".to_owned(), Value::new(Some(&origin), key.as_str()));
                    ValueKind::Table(table)
                }
                other => other,
            };
            Value::new(Some(&origin), vec![Value::new(Some(&origin), kind)])
        } else {
            Value::new(Some(&origin), Map::from([(key.clone(), value)]))
        };
    }
    Ok(value)
}

/// Position of a path in the schema and in the weaker layers.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    rule: Option<Rule<'a>>,
    below: Option<&'a Value>,
}

impl Cursor<'_> {
    /// Only entries of weaker layers can be named, so that a misspelled name creates no new entry.
    fn is_entry(self, key: &str) -> Result<bool, String> {
        if self.rule.and_then(Rule::named_item).is_none() {
            return Ok(false);
        }
        let names = self.names();
        if names.iter().any(|name| name == key) {
            return Ok(true);
        }
        let known = if names.is_empty() {
            "there are none".to_owned()
        } else {
            format!("the entries are {}", names.join(", "))
        };
        Err(format!("no entry is named {key:?}; {known}"))
    }

    fn names(self) -> Vec<String> {
        let Some(Value { kind: ValueKind::Table(table), .. }) = self.below else { return Vec::new() };
        let mut names: Vec<_> = table.keys().cloned().collect();
        names.sort();
        names
    }

    fn descend(self, key: &str) -> Self {
        let below = match self.below {
            Some(Value { kind: ValueKind::Table(table), .. }) => table.get(key),
            _ => None,
        };
        let rule = self.rule.and_then(|rule| rule.named_item().or_else(|| rule.key(key)));
        Self { rule, below }
    }
}

/// Parses `text` as TOML. Text that is not TOML is a string, and so is any scalar for a key that expects a
/// string, so that a shell command needs no quotes within quotes.
fn value(text: &str, rule: Option<Rule<'_>>, position: &str) -> Value {
    let raw = || Value::new(Some(&position.to_owned()), text);
    let expects_string = rule.is_some_and(|rule| rule.has_type("string"));
    match document::read_value(text, position) {
        Some(value) => match value.kind {
            ValueKind::String(_) | ValueKind::Array(_) | ValueKind::Table(_) => value,
            _ if expects_string => raw(),
            _ => value,
        },
        None => raw(),
    }
}
