//! The check of one source, or of the merged configuration, against the schema.

use config::{Value, ValueKind};
use serde_json::{Number, Value as Json};

use super::{
    explain,
    report::Diagnostic,
    schema::{Rule, Schema},
    secrets,
    validate::{Violation, violations},
    value_path::{Step, dotted, position, remove},
};

/// Part of the configuration that a tree holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// One source. Another source may have the missing keys.
    OneSource,
    /// The merged configuration.
    Whole,
}

/// Checks `tree`, removes the invalid values so that the rest can be checked further, and returns the errors.
pub(super) fn check(tree: &mut Value, schema: &Schema, extent: Extent) -> Vec<Diagnostic> {
    let json = to_json(tree, Some(schema.root()));
    let mut violations = violations(&json, schema.root());
    violations.retain(|(_, violation)| extent == Extent::Whole || !may_be_in_another_source(violation));
    violations.sort_by(|(left, _), (right, _)| left.cmp(right));

    let mut diagnostics = Vec::new();
    let mut wrong = Vec::new();
    for (steps, violation) in &violations {
        match violation {
            Violation::UnknownKey(name) => {
                let steps = inside(steps, name);
                diagnostics.push(explain::unknown_key(tree, &steps, schema));
                wrong.push(steps);
            }
            Violation::MissingKey(name) => {
                diagnostics.push(explain::wrong_value(tree, &inside(steps, name), violation, schema));
            }
            violation => {
                diagnostics.push(explain::wrong_value(tree, steps, violation, schema));
                wrong.push(steps.clone());
            }
        }
    }
    wrong.iter().for_each(|steps| remove(tree, steps));
    diagnostics.extend(remove_unrepresentable(tree));
    // Passwords are removed before a subsystem reads its section.
    for (steps, diagnostic) in secrets::find(tree, schema) {
        remove(tree, &steps);
        diagnostics.push(diagnostic);
    }
    diagnostics
}

/// Removes the values that JSON cannot represent. Only tables with free keys can have them.
fn remove_unrepresentable(tree: &mut Value) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    find_unrepresentable(tree, &mut Vec::new(), &mut found);
    let diagnostics = found.iter().map(|(steps, text)| Diagnostic {
        position: position(tree, steps),
        key: dotted(tree, steps),
        text: (*text).to_owned(),
    });
    let diagnostics = diagnostics.collect();
    found.iter().for_each(|(steps, _)| remove(tree, steps));
    diagnostics
}

fn find_unrepresentable(value: &Value, steps: &mut Vec<Step>, found: &mut Vec<(Vec<Step>, &'static str)>) {
    let text = match &value.kind {
        ValueKind::Nil => "this is a date or time; write it in quotes",
        ValueKind::Float(number) if !number.is_finite() => "infinity and NaN are not allowed",
        ValueKind::I128(_) | ValueKind::U128(_) => "integers are limited to 64 bits; write it in quotes",
        ValueKind::Table(table) => {
            for (key, value) in table {
                steps.push(Step::Key(key.clone()));
                find_unrepresentable(value, steps, found);
                steps.pop();
            }
            return;
        }
        ValueKind::Array(array) => {
            for (index, value) in array.iter().enumerate() {
                steps.push(Step::Index(index));
                find_unrepresentable(value, steps, found);
                steps.pop();
            }
            return;
        }
        _ => return,
    };
    found.push((steps.clone(), text));
}

fn inside(steps: &[Step], key: &str) -> Vec<Step> {
    steps.iter().cloned().chain([Step::Key(key.to_owned())]).collect()
}

/// True for a missing key that another source may have. Every source must have the `name` of an entry.
fn may_be_in_another_source(violation: &Violation<'_>) -> bool {
    matches!(violation, Violation::MissingKey(key) if *key != "name")
}

/// Converts `value` to JSON, for the schema and for serde.
pub(super) fn to_json(value: &Value, rule: Option<Rule<'_>>) -> Json {
    match &value.kind {
        ValueKind::Nil => Json::Null,
        ValueKind::Boolean(flag) => Json::Bool(*flag),
        ValueKind::I64(number) => Json::from(*number),
        ValueKind::U64(number) => Json::from(*number),
        ValueKind::I128(number) => Json::Number(wide(*number)),
        ValueKind::U128(number) => Json::Number(wide(i128::try_from(*number).unwrap_or(i128::MAX))),
        // JSON Schema accepts 60.0 as an integer; this configuration does not.
        ValueKind::Float(_) if rule.is_some_and(|rule| rule.has_type("integer")) => Json::Null,
        ValueKind::Float(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        ValueKind::String(text) => Json::String(text.clone()),
        ValueKind::Array(array) => {
            Json::Array(array.iter().map(|entry| to_json(entry, rule.and_then(Rule::item))).collect())
        }
        ValueKind::Table(table) => {
            let entry = |(key, value): (&String, &Value)| {
                (key.clone(), to_json(value, rule.and_then(|rule| rule.key(key))))
            };
            Json::Object(table.iter().map(entry).collect())
        }
    }
}

/// Limits an integer to the range of JSON integers. Both values are outside of every bound in the schema.
fn wide(number: i128) -> Number {
    Number::from_i128(number).unwrap_or_else(|| if number < 0 { i64::MIN.into() } else { u64::MAX.into() })
}
