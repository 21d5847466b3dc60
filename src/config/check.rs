//! Checks one source, or the sum of all, against the schema.

use config::{Value, ValueKind};
use serde_json::{Number, Value as Json};

use super::{
    explain,
    report::Refusal,
    schema::{Rule, Schema},
    secrets,
    validate::{Violation, violations},
};

/// One step from a value into it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Into a table.
    Key(String),
    /// Into an array.
    Index(usize),
}

/// How much of the configuration a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// One source: what it lacks, another may have.
    OneSource,
    /// All of it.
    Whole,
}

/// Checks `tree`, takes what is wrong out of it, so that the rest can be checked further, and says what it was.
pub(super) fn check(tree: &mut Value, schema: &Schema, extent: Extent) -> Vec<Refusal> {
    let json = to_json(tree, Some(schema.root()));
    let mut violations = violations(&json, schema.root());
    violations.retain(|(_, violation)| extent == Extent::Whole || !may_come_later(violation));
    violations.sort_by(|(left, _), (right, _)| left.cmp(right));

    let mut refusals = Vec::new();
    let mut wrong = Vec::new();
    for (steps, violation) in &violations {
        match violation {
            Violation::UnknownKey(name) => {
                let steps = inside(steps, name);
                refusals.push(explain::unknown_key(tree, &steps, schema));
                wrong.push(steps);
            }
            Violation::MissingKey(name) => {
                let missing = inside(steps, name);
                refusals.push(explain::wrong_value(tree, &missing, violation, schema));
                // Without its kind, nobody can read the rest of it.
                if explain::rule_at(schema, &missing).is_some_and(|rule| rule.says("const").is_some()) {
                    wrong.push(steps.clone());
                }
            }
            violation => {
                refusals.push(explain::wrong_value(tree, steps, violation, schema));
                wrong.push(steps.clone());
            }
        }
    }
    wrong.iter().for_each(|steps| remove(tree, steps));
    refusals.extend(nothing_else(tree));
    // Nothing that reads the sections sees a password.
    for (steps, refusal) in secrets::find(tree, schema) {
        remove(tree, &steps);
        refusals.push(refusal);
    }
    refusals
}

/// Values that free tables, of which the schema knows no keys, would turn into something else: they have no like in JSON.
fn nothing_else(tree: &mut Value) -> Vec<Refusal> {
    let mut found = Vec::new();
    unlike(tree, &mut Vec::new(), &mut found);
    let refusals = found.iter().map(|(steps, text)| Refusal {
        place: explain::place(tree, steps),
        key: explain::dotted(tree, steps),
        text: (*text).to_owned(),
    });
    let refusals = refusals.collect();
    found.iter().for_each(|(steps, _)| remove(tree, steps));
    refusals
}

fn unlike(value: &Value, steps: &mut Vec<Step>, found: &mut Vec<(Vec<Step>, &'static str)>) {
    let text = match &value.kind {
        ValueKind::Nil => "this is a date or time; write it in quotes",
        ValueKind::Float(number) if !number.is_finite() => "this is no number that can be written down",
        ValueKind::I128(_) | ValueKind::U128(_) => "this has more than 64 bits; write it in quotes",
        ValueKind::Table(table) => {
            for (key, value) in table {
                steps.push(Step::Key(key.clone()));
                unlike(value, steps, found);
                steps.pop();
            }
            return;
        }
        ValueKind::Array(array) => {
            for (index, value) in array.iter().enumerate() {
                steps.push(Step::Index(index));
                unlike(value, steps, found);
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

/// A key that is missing in one source may be in another; but entries are told apart by their names.
fn may_come_later(violation: &Violation<'_>) -> bool {
    matches!(violation, Violation::MissingKey(key) if *key != "name")
}

/// The value at `steps`, if there is one.
pub(super) fn value_at<'a>(tree: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    steps.iter().try_fold(tree, |value, step| match (&value.kind, step) {
        (ValueKind::Table(table), Step::Key(key)) => table.get(key),
        (ValueKind::Array(array), Step::Index(index)) => array.get(*index),
        _ => None,
    })
}

/// Takes the value at `steps` out. An array goes as a whole, or the steps of others would no longer be right.
fn remove(tree: &mut Value, steps: &[Step]) {
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

/// `value` as JSON, for the schema and for serde.
pub(super) fn to_json(value: &Value, rule: Option<Rule<'_>>) -> Json {
    match &value.kind {
        ValueKind::Nil => Json::Null,
        ValueKind::Boolean(flag) => Json::Bool(*flag),
        ValueKind::I64(number) => Json::from(*number),
        ValueKind::U64(number) => Json::from(*number),
        ValueKind::I128(number) => Json::Number(wide(*number)),
        ValueKind::U128(number) => Json::Number(wide(i128::try_from(*number).unwrap_or(i128::MAX))),
        // JSON Schema takes 60.0 for an integer. Here a float is none.
        ValueKind::Float(_) if rule.is_some_and(|rule| rule.wants("integer")) => Json::Null,
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

/// An integer beyond what JSON numbers hold exactly is beyond every bound; its neighbour is, too.
fn wide(number: i128) -> Number {
    Number::from_i128(number).unwrap_or_else(|| if number < 0 { i64::MIN.into() } else { u64::MAX.into() })
}
