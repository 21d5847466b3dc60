//! Error messages for violations of the schema.

use config::{Value, ValueKind};
use orchestrator_subsystem::redaction::{may_hold_secret, may_quote_secret, redact_command};
use serde_json::Value as Json;

use super::{
    report::{Diagnostic, excerpt},
    schema::{Rule, Schema, ValueFormat},
    validate::Violation,
    value_path::{Step, dotted, position, rule_at, value_at},
};
use crate::subsystems::NAMES;

/// Former names of keys, and their names now.
const RENAMED: &[(&str, &str)] = &[("program", "argv")];

/// Least similarity of two words for which one counts as a misspelling of the other: three letters of four.
const MIN_SIMILARITY: f64 = 0.75;

pub(super) fn unknown_key(tree: &Value, steps: &[Step], schema: &Schema) -> Diagnostic {
    let value = value_at(tree, steps);
    let (name, above) = match steps.split_last() {
        Some((Step::Key(name), above)) => (name.as_str(), above),
        _ => ("", steps),
    };
    let is_table = value.is_some_and(|value| matches!(value.kind, ValueKind::Table(_)));
    let text = if above.is_empty() && NAMES.contains(&name) {
        format!("this build does not include the subsystem; rebuild with --features {name}")
    } else if above.is_empty() && !is_table {
        outside_of_sections(name, schema.root())
    } else {
        let what = if above.is_empty() { "section" } else { "key" };
        let known: Vec<_> = rule_at(schema, above).into_iter().flat_map(Rule::keys).collect();
        format!("unknown {what}; {}", suggestion(name, &known))
    };
    Diagnostic { position: position(tree, steps), key: dotted(tree, steps), text }
}

/// Message for a key before the first section header. It may be a valid key of some section.
fn outside_of_sections(name: &str, root: Rule<'_>) -> String {
    let sections: Vec<_> =
        root.keys().filter(|section| root.key(section).and_then(|rule| rule.key(name)).is_some()).collect();
    match sections.as_slice() {
        [] => {
            let known: Vec<_> = root.keys().collect();
            format!("unknown key outside of all sections; {}", suggestion(name, &known))
        }
        sections => format!("unknown key outside of all sections; move it to [{}]", sections.join("] or [")),
    }
}

/// New name of a renamed key, else the known word that is most similar to `name`, else all known words, as
/// part of a message.
fn suggestion(name: &str, known: &[&str]) -> String {
    if let Some((_, now)) = RENAMED.iter().find(|(former, now)| *former == name && known.contains(now)) {
        return format!("its name is {now} now");
    }
    let similarity = |word: &&str| strsim::normalized_damerau_levenshtein(name, word);
    let nearest = known.iter().copied().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    match nearest.filter(|word| similarity(word) >= MIN_SIMILARITY) {
        Some(word) => format!("did you mean {word}?"),
        None => format!("expected one of {}", known.join(", ")),
    }
}

pub(super) fn wrong_value(
    tree: &Value,
    steps: &[Step],
    violation: &Violation<'_>,
    schema: &Schema,
) -> Diagnostic {
    let (shown, noun) = value_at(tree, steps).map_or(("this".to_owned(), "missing"), describe);
    let shown = if is_shown(tree, steps, schema) { shown } else { "this".to_owned() };
    let text = match violation {
        Violation::Type(kind) => {
            let choice = rule_at(schema, steps).and_then(Rule::choice);
            let wanted = choice
                .map_or_else(|| expected(kind).to_owned(), |choice| format!("one of {}", words(choice)));
            format!("{shown} is {noun}, expected {wanted}")
        }
        Violation::Choice(options) => format!("{shown} is not one of {}", words(options)),
        Violation::Minimum(limit) => format!("{shown} is below the minimum {limit}"),
        Violation::Maximum(limit) => format!("{shown} is above the maximum {limit}"),
        Violation::MinLength(1) => "must not be empty; leave the key out for its default".to_owned(),
        Violation::MinLength(limit) => format!("{shown} has fewer than {limit} characters"),
        Violation::Pattern(pattern) => format!("{shown} does not match {pattern}"),
        Violation::MissingKey(_) => "is missing and has no default".to_owned(),
        Violation::UnknownKey(key) => format!("unknown key {key}"),
    };
    Diagnostic { position: position(tree, steps), key: dotted(tree, steps), text }
}

/// True if an error message may show the value at `steps`.
fn is_shown(tree: &Value, steps: &[Step], schema: &Schema) -> bool {
    let text = match value_at(tree, steps).map(|value| &value.kind) {
        Some(ValueKind::String(text)) => text.as_str(),
        _ => "",
    };
    // The elements of an array have the format of the array.
    let mut marks = (0..=steps.len()).rev().filter_map(|end| rule_at(schema, &steps[..end])?.value_format());
    match marks.next() {
        Some(ValueFormat::Secret | ValueFormat::Header | ValueFormat::Webhook) => false,
        Some(ValueFormat::Address) => !may_hold_secret(text),
        Some(ValueFormat::Command) => redact_command([text]) == [text],
        None => !may_quote_secret(text),
    }
}

/// Names a type of JSON Schema in a message.
fn expected(kind: &str) -> &'static str {
    match kind {
        "array" => "an array",
        "boolean" => "a boolean",
        "integer" => "an integer",
        "number" => "a number",
        "object" => "a table",
        "string" => "a string",
        _ => "nothing",
    }
}

fn words(options: &Json) -> String {
    let words = options.as_array().into_iter().flatten();
    words
        .map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Formats a value and its type for a message.
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
