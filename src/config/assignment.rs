//! One key and its value, from the command line or the environment, as a tree of one leaf.

use config::{Map, Value, ValueKind};
use toml::de::{DeTable, DeValue};

use super::{
    document,
    report::{Refusal, one_line},
    schema::{Rule, Schema},
};
use orchestrator_subsystem::redaction::{HIDDEN, mentions_secret, scrubbed};

/// Reads `SECTION.KEY=VALUE`. `below` are the layers so far, by name.
pub(super) fn from_set(set: &str, schema: &Schema, below: &Value) -> Result<Value, Refusal> {
    let place = shown(set, schema);
    let refuse = |text: &str| Refusal { place: place.clone(), key: String::new(), text: text.to_owned() };
    let (key, text) = set.split_once('=').ok_or_else(|| refuse("write it as section.key=value"))?;
    let path = keys(key).ok_or_else(|| refuse("what is left of = is no key; write section.key=value"))?;
    tree(&path, text, &place, schema, below)
}

/// The assignment as it may be shown. The value of a key that nobody knows is not: it may be meant for one that holds a secret.
fn shown(set: &str, schema: &Schema) -> String {
    let Some((key, value)) = set.split_once('=') else {
        let dotted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '"');
        let end = set.find(|c| !dotted(c)).unwrap_or(set.len());
        let rest = if end < set.len() { HIDDEN } else { "" };
        return one_line(format!("--set {}{rest}", &set[..end]));
    };
    let Some(path) = keys(key) else { return format!("--set {HIDDEN}") };
    let value = if is_shown(&path, value, schema) { value } else { HIDDEN };
    one_line(scrubbed(&format!("--set {key}={value}")))
}

/// May `value`, for the key at `path`, be shown?
fn is_shown(path: &[String], value: &str, schema: &Schema) -> bool {
    let mut rule = schema.root();
    for key in path {
        if rule.is_free() {
            break;
        }
        let Some(inner) = rule.named_item().or_else(|| rule.key(key)) else { return false };
        rule = inner;
    }
    match rule.mark() {
        // `config print` shows an address that is taken; one that is refused may be a password and little else.
        Some(_) => false,
        None => !rule.holds_marks() && !mentions_secret(value),
    }
}

/// The parts of a dotted key, in TOML's way of writing.
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

/// A tree with `text` as the value at `path`.
pub(super) fn tree(
    path: &[String],
    text: &str,
    place: &str,
    schema: &Schema,
    below: &Value,
) -> Result<Value, Refusal> {
    let mut at = At { rule: Some(schema.root()), below: Some(below) };
    let mut entries = Vec::new();
    for (depth, key) in path.iter().enumerate() {
        let refuse = |text: String| Refusal { place: place.to_owned(), key: path[..depth].join("."), text };
        let entry = at.entry(key).map_err(refuse)?;
        at = at.inside(key);
        entries.push(entry);
    }
    let mut value = value(text, at.rule, place);
    for (key, entry) in path.iter().zip(entries).rev() {
        let origin = place.to_owned();
        value = if entry {
            let kind = match value.kind {
                ValueKind::Table(table) if table.contains_key("name") => {
                    let text = "an entry keeps its name; rename it in its file".to_owned();
                    return Err(Refusal { place: origin, key: path.join("."), text });
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

/// How far a path has led, in the schema and in the layers below.
#[derive(Clone, Copy)]
struct At<'a> {
    rule: Option<Rule<'a>>,
    below: Option<&'a Value>,
}

impl At<'_> {
    /// Is `key` the name of an entry, rather than a key? Only entries that are there can be meant: a slip in a name would
    /// make another entry.
    fn entry(self, key: &str) -> Result<bool, String> {
        if self.rule.and_then(Rule::named_item).is_none() {
            return Ok(false);
        }
        let names = self.names();
        if names.iter().any(|name| name == key) {
            return Ok(true);
        }
        let there = if names.is_empty() { "no entry at all".to_owned() } else { names.join(", ") };
        Err(format!("no entry is named {key:?}; there is {there}"))
    }

    fn names(self) -> Vec<String> {
        let Some(Value { kind: ValueKind::Table(table), .. }) = self.below else { return Vec::new() };
        let mut names: Vec<_> = table.keys().cloned().collect();
        names.sort();
        names
    }

    fn inside(self, key: &str) -> Self {
        let below = match self.below {
            Some(Value { kind: ValueKind::Table(table), .. }) => table.get(key),
            _ => None,
        };
        let rule = self.rule.and_then(|rule| rule.named_item().or_else(|| rule.key(key)));
        Self { rule, below }
    }
}

/// `text` as TOML, else as a string. Where a string is expected, whatever is no quoted string is one as it stands: quotes
/// within a shell's quotes are too much to ask for.
fn value(text: &str, rule: Option<Rule<'_>>, place: &str) -> Value {
    let raw = || Value::new(Some(&place.to_owned()), text);
    let wants_string = rule.is_some_and(|rule| rule.wants("string"));
    match document::read_value(text, place) {
        Some(value) => match value.kind {
            ValueKind::String(_) | ValueKind::Array(_) | ValueKind::Table(_) => value,
            _ if wants_string => raw(),
            _ => value,
        },
        None => raw(),
    }
}
