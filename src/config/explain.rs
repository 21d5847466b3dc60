//! What the schema complains of, in the words of who writes the configuration.

use config::{Value, ValueKind};
use orchestrator_subsystem::redaction::{holds_secret, mentions_secret};
use serde_json::Value as Json;

use super::{
    check::{Step, value_at},
    report::{Refusal, excerpt},
    schema::{Mark, Rule, Schema},
    validate::Violation,
};
use crate::subsystems::NAMES;

/// How alike two words must be for one to be taken for a slip of the other: one letter of four.
const ALIKE: f64 = 0.75;

/// `steps` lead to a key that the schema does not have.
pub(super) fn unknown_key(tree: &Value, steps: &[Step], schema: &Schema) -> Refusal {
    let value = value_at(tree, steps);
    let (name, above) = match steps.split_last() {
        Some((Step::Key(name), above)) => (name.as_str(), above),
        _ => ("", steps),
    };
    let is_table = value.is_some_and(|value| matches!(value.kind, ValueKind::Table(_)));
    let text = if above.is_empty() && NAMES.contains(&name) {
        format!("this build leaves that subsystem out; rebuild with --features {name}")
    } else if above.is_empty() && !is_table {
        outside_of_sections(name, schema.root())
    } else {
        let what = if above.is_empty() { "section" } else { "key" };
        let known: Vec<_> = rule_at(schema, above).into_iter().flat_map(Rule::keys).collect();
        format!("unknown {what}; {}", instead(name, &known))
    };
    Refusal { place: place(tree, steps), key: dotted(tree, steps), text }
}

/// What the schema says about the value at `steps`.
pub(super) fn rule_at<'a>(schema: &'a Schema, steps: &[Step]) -> Option<Rule<'a>> {
    steps.iter().try_fold(schema.root(), |rule, step| match step {
        Step::Key(key) => rule.key(key),
        Step::Index(_) => rule.item(),
    })
}

/// A key before the first section, where only sections are: it may just have the wrong place.
fn outside_of_sections(name: &str, root: Rule<'_>) -> String {
    let homes: Vec<_> =
        root.keys().filter(|section| root.key(section).and_then(|rule| rule.key(name)).is_some()).collect();
    match homes.as_slice() {
        [] => {
            let known: Vec<_> = root.keys().collect();
            format!("unknown key outside of all sections; {}", instead(name, &known))
        }
        homes => format!("unknown key outside of all sections; it belongs into [{}]", homes.join("] or [")),
    }
}

/// The word that was probably meant, else all there are.
fn instead(name: &str, known: &[&str]) -> String {
    let likeness = |word: &&str| strsim::normalized_damerau_levenshtein(name, word);
    let near = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match near.filter(|word| likeness(word) >= ALIKE) {
        Some(word) => format!("did you mean {word}?"),
        None => format!("known are {}", known.join(", ")),
    }
}

/// `steps` lead to a value that the schema refuses.
pub(super) fn wrong_value(
    tree: &Value,
    steps: &[Step],
    violation: &Violation<'_>,
    schema: &Schema,
) -> Refusal {
    let (shown, noun) = value_at(tree, steps).map_or(("this".to_owned(), "missing"), describe);
    let shown = if is_shown(tree, steps, schema) { shown } else { "this".to_owned() };
    let text = match violation {
        Violation::Type(kind) => {
            let choice = rule_at(schema, steps).and_then(Rule::choice);
            let wanted = choice.map_or_else(|| expected(kind), |choice| format!("one of {}", words(choice)));
            format!("{shown} is {noun}, {wanted} is expected")
        }
        Violation::Constant(word) => {
            format!("{shown} is none of {}", words(&Json::Array(vec![Json::clone(word)])))
        }
        Violation::Choice(options) => format!("{shown} is none of {}", words(options)),
        Violation::Minimum(limit) => format!("{shown} is below the least value {limit}"),
        Violation::Maximum(limit) => format!("{shown} is above the greatest value {limit}"),
        Violation::MinLength(1) => "must not be empty; leave the key out for its default".to_owned(),
        Violation::MinLength(limit) => format!("{shown} has fewer than {limit} characters"),
        Violation::Pattern(pattern) => format!("{shown} does not match {pattern}"),
        Violation::MissingKey(_) => "is missing and has no default".to_owned(),
        Violation::UnknownKey(key) => format!("unknown key {key}"),
    };
    Refusal { place: place(tree, steps), key: dotted(tree, steps), text }
}

/// May the value at `steps` stand in a complaint?
fn is_shown(tree: &Value, steps: &[Step], schema: &Schema) -> bool {
    let text = match value_at(tree, steps).map(|value| &value.kind) {
        Some(ValueKind::String(text)) => text.as_str(),
        _ => "",
    };
    // What is in an array has the mark of the array.
    let mut marks = (0..=steps.len()).rev().filter_map(|end| rule_at(schema, &steps[..end])?.mark());
    match marks.next() {
        Some(Mark::Secret | Mark::Header) => false,
        Some(Mark::Address) => !holds_secret(text),
        Some(Mark::Command) | None => !mentions_secret(text),
    }
}

/// Names a type of JSON Schema, or several, for a sentence.
fn expected(kind: &Json) -> String {
    let name = |kind: &Json| match kind.as_str() {
        Some("array") => "an array",
        Some("boolean") => "a boolean",
        Some("integer") => "an integer",
        Some("number") => "a number",
        Some("object") => "a table",
        Some("string") => "a string",
        _ => "nothing",
    };
    match kind {
        Json::Array(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
        kind => name(kind).to_owned(),
    }
}

fn words(options: &Json) -> String {
    let words = options.as_array().into_iter().flatten();
    words
        .map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A value and its type, for a sentence.
fn describe(value: &Value) -> (String, &'static str) {
    match &value.kind {
        ValueKind::Nil => ("this".to_owned(), "a date or time"),
        ValueKind::Boolean(flag) => (flag.to_string(), "a boolean"),
        ValueKind::I64(number) => (number.to_string(), "an integer"),
        ValueKind::I128(number) => (number.to_string(), "an integer"),
        ValueKind::U64(number) => (number.to_string(), "an integer"),
        ValueKind::U128(number) => (number.to_string(), "an integer"),
        ValueKind::Float(number) => (format!("{number:?}"), "a float"),
        ValueKind::String(text) => (format!("{:?}", excerpt(text)), "a string"),
        ValueKind::Array(_) => ("this".to_owned(), "an array"),
        ValueKind::Table(_) => ("this".to_owned(), "a table"),
    }
}

/// Where the value at `steps` stands; for what is not there, what it should stand in.
pub(super) fn place(tree: &Value, steps: &[Step]) -> String {
    let outwards = (0..=steps.len()).rev().filter_map(|end| value_at(tree, &steps[..end]));
    outwards.filter_map(any_origin).next().unwrap_or_else(|| "the configuration".to_owned())
}

/// Where a value, or else the first thing in it, stands. Merged tables have no place of their own.
fn any_origin(value: &Value) -> Option<String> {
    let own = value.origin().map(str::to_owned);
    own.or_else(|| match &value.kind {
        ValueKind::Table(table) => table.values().filter_map(any_origin).min(),
        ValueKind::Array(array) => array.iter().find_map(any_origin),
        _ => None,
    })
}

/// `steps` as a key, entries by their names.
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

/// The name of an entry.
pub(super) fn name_of(entry: Option<&Value>) -> Option<String> {
    match &entry?.kind {
        ValueKind::Table(table) => match &table.get("name")?.kind {
            ValueKind::String(name) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    }
}
