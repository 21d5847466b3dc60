//! Paths of values in the configuration: what is at a path, where it was written, and its dotted key.

use config::{Value, ValueKind};

use super::schema::{Rule, Schema};

/// One step from a value into it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Into a table.
    Key(String),
    /// Into an array.
    Index(usize),
}

pub(super) fn value_at<'a>(tree: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    steps.iter().try_fold(tree, |value, step| match (&value.kind, step) {
        (ValueKind::Table(table), Step::Key(key)) => table.get(key),
        (ValueKind::Array(array), Step::Index(index)) => array.get(*index),
        _ => None,
    })
}

/// Removes the value at `steps`. An array is removed as a whole, so that the indices in other steps stay
/// valid.
pub(super) fn remove(tree: &mut Value, steps: &[Step]) {
    let Some(end) = steps.iter().rposition(|step| matches!(step, Step::Key(_))) else { return };
    let parent = steps[..end].iter().try_fold(tree, |value, step| match (&mut value.kind, step) {
        (ValueKind::Table(table), Step::Key(key)) => table.get_mut(key),
        (ValueKind::Array(array), Step::Index(index)) => array.get_mut(*index),
        _ => None,
    });
    if let (Some(Value { kind: ValueKind::Table(table), .. }), Step::Key(key)) = (parent, &steps[end]) {
        table.remove(key);
    }
}

pub(super) fn rule_at<'a>(schema: &'a Schema, steps: &[Step]) -> Option<Rule<'a>> {
    steps.iter().try_fold(schema.root(), |rule, step| match step {
        Step::Key(key) => rule.key(key),
        Step::Index(_) => rule.item(),
    })
}

/// Calls `visit` for each key of the tables in `value` that the schema knows, with the steps to it, its
/// value, its rule and the rule of its table. Goes into the value unless `visit` returns true.
pub(super) fn walk(
    value: &Value,
    rule: Rule<'_>,
    steps: &mut Vec<Step>,
    visit: &mut impl FnMut(&[Step], &str, &Value, Rule<'_>, Rule<'_>) -> bool,
) {
    match &value.kind {
        ValueKind::Table(table) if !rule.is_free() => {
            for (key, value) in table {
                let Some(inner) = rule.key(key) else { continue };
                steps.push(Step::Key(key.clone()));
                if !visit(steps, key, value, inner, rule) {
                    walk(value, inner, steps, visit);
                }
                steps.pop();
            }
        }
        ValueKind::Array(entries) => {
            let Some(item) = rule.item() else { return };
            for (index, value) in entries.iter().enumerate() {
                steps.push(Step::Index(index));
                walk(value, item, steps, visit);
                steps.pop();
            }
        }
        _ => {}
    }
}

/// Position of the value at `steps`, or of the innermost table that should hold it.
pub(super) fn position(tree: &Value, steps: &[Step]) -> String {
    let outwards = (0..=steps.len()).rev().filter_map(|end| value_at(tree, &steps[..end]));
    outwards.filter_map(any_origin).next().unwrap_or_else(|| "the configuration".to_owned())
}

/// Position of a value, or of the first value in it, since merged tables have no position.
fn any_origin(value: &Value) -> Option<String> {
    let own = value.origin().map(str::to_owned);
    own.or_else(|| match &value.kind {
        ValueKind::Table(table) => table.values().filter_map(any_origin).min(),
        ValueKind::Array(array) => array.iter().find_map(any_origin),
        _ => None,
    })
}

/// Formats `steps` as a dotted key, with entries by their names.
pub(super) fn dotted(tree: &Value, steps: &[Step]) -> String {
    let mut text = String::new();
    for (end, step) in steps.iter().enumerate() {
        let name = match step {
            Step::Key(key) => Some(key.clone()),
            Step::Index(_) => name_of(value_at(tree, &steps[..=end])),
        };
        match (name, step) {
            (Some(name), _) => {
                let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                let name =
                    if !name.is_empty() && name.chars().all(bare) { name } else { format!("{name:?}") };
                text.push_str(if text.is_empty() { "" } else { "." });
                text.push_str(&name);
            }
            (None, Step::Index(index)) => text.push_str(&format!("[{index}]")),
            (None, Step::Key(_)) => {}
        }
    }
    text
}

pub(super) fn name_of(entry: Option<&Value>) -> Option<String> {
    match &entry?.kind {
        ValueKind::Table(table) => match &table.get("name")?.kind {
            ValueKind::String(name) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    }
}
