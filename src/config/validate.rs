//! Validation of a value against a schema. It finds all violations, while serde stops at the first error.
//!
//! Only the keywords of JSON Schema (draft 2020-12) that the section types produce are supported. A test
//! compares them with the generated schema.

use regex_lite::Regex;
use serde_json::{Map, Value};

use super::{schema::Rule, value_path::Step};

/// Keywords that are checked, and keywords that only describe.
#[cfg(test)]
pub(super) const KEYWORDS: [&[&str]; 2] = [
    &[
        "additionalProperties",
        "enum",
        "items",
        "maximum",
        "minLength",
        "minimum",
        "pattern",
        "properties",
        "required",
        "type",
    ],
    &["$schema", "default", "description", "format", "title"],
];

/// One violation of the schema.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Violation<'a> {
    /// The table has this unknown key.
    UnknownKey(String),
    /// The table lacks this key.
    MissingKey(&'a str),
    /// The value does not have this type of JSON.
    Type(&'a str),
    /// The value is not one of these words.
    Choice(&'a Value),
    /// The number is below this limit.
    Minimum(&'a Value),
    /// The number is above this limit.
    Maximum(&'a Value),
    /// The text has fewer characters than this.
    MinLength(u64),
    /// The text does not match this regular expression.
    Pattern(&'a str),
}

/// Each violation has its path.
pub(super) fn violations<'a>(value: &Value, rule: Rule<'a>) -> Vec<(Vec<Step>, Violation<'a>)> {
    let mut found = Vec::new();
    validate(value, rule, &mut Vec::new(), &mut found);
    found
}

type Found<'a> = Vec<(Vec<Step>, Violation<'a>)>;

fn validate<'a>(value: &Value, rule: Rule<'a>, steps: &mut Vec<Step>, found: &mut Found<'a>) {
    // A wrong type is the only error that is reported about a value.
    if let Some(kind) = rule.kind().filter(|kind| !is_of(value, kind)) {
        return found.push((steps.clone(), Violation::Type(kind)));
    }
    if let Some(violation) = scalar(value, rule) {
        return found.push((steps.clone(), violation));
    }
    match value {
        Value::Object(table) => keys(table, rule, steps, found),
        Value::Array(entries) => {
            let Some(item) = rule.item() else { return };
            for (index, entry) in entries.iter().enumerate() {
                steps.push(Step::Index(index));
                validate(entry, item, steps, found);
                steps.pop();
            }
        }
        _ => {}
    }
}

fn keys<'a>(table: &Map<String, Value>, rule: Rule<'a>, steps: &mut Vec<Step>, found: &mut Found<'a>) {
    let required = rule.keyword("required").and_then(Value::as_array).into_iter().flatten();
    let missing = required.filter_map(Value::as_str).filter(|key| !table.contains_key(*key));
    found.extend(missing.map(|key| (steps.clone(), Violation::MissingKey(key))));
    for (key, value) in table {
        let inner = match (rule.key(key), rule.keyword("additionalProperties")) {
            (Some(inner), _) => inner,
            (None, Some(Value::Bool(false))) => {
                found.push((steps.clone(), Violation::UnknownKey(key.clone())));
                continue;
            }
            (None, Some(others)) => Rule::new(others),
            (None, None) => continue,
        };
        steps.push(Step::Key(key.clone()));
        validate(value, inner, steps, found);
        steps.pop();
    }
}

fn scalar<'a>(value: &Value, rule: Rule<'a>) -> Option<Violation<'a>> {
    if let Some(choice) =
        rule.choice().filter(|choice| !choice.as_array().is_some_and(|all| all.contains(value)))
    {
        return Some(Violation::Choice(choice));
    }
    if let Value::Number(_) = value {
        let below = |limit: &&Value| is_less(value, limit);
        let above = |limit: &&Value| is_less(limit, value);
        let least = rule.keyword("minimum").filter(below).map(Violation::Minimum);
        return least.or_else(|| rule.keyword("maximum").filter(above).map(Violation::Maximum));
    }
    let text = value.as_str()?;
    let least = rule.keyword("minLength").and_then(Value::as_u64).unwrap_or_default();
    if (text.chars().count() as u64) < least {
        return Some(Violation::MinLength(least));
    }
    let pattern = rule.keyword("pattern")?.as_str()?;
    let matches = Regex::new(pattern).is_ok_and(|regex| regex.is_match(text));
    (!matches).then_some(Violation::Pattern(pattern))
}

/// `kind` is a type of JSON Schema.
fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        _ => true,
    }
}

/// Compares numbers; integers are compared exactly.
fn is_less(left: &Value, right: &Value) -> bool {
    let whole = |value: &Value| value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left < right,
        _ => left.as_f64() < right.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::schema::Schema, *};

    /// Collects the keywords of a schema and of its subschemas.
    fn keywords(schema: &Value, found: &mut std::collections::BTreeSet<String>) {
        let Value::Object(schema) = schema else { return };
        found.extend(schema.keys().cloned());
        let tables = schema.get("properties").and_then(Value::as_object);
        tables.into_iter().flat_map(Map::values).for_each(|inner| keywords(inner, found));
        ["items", "additionalProperties"]
            .iter()
            .filter_map(|key| schema.get(*key))
            .for_each(|inner| keywords(inner, found));
    }

    #[test]
    fn every_keyword_of_the_schema_is_supported() {
        let mut found = std::collections::BTreeSet::new();
        keywords(&serde_json::from_str(&Schema::whole().to_string()).unwrap(), &mut found);
        let known: Vec<&str> = KEYWORDS.concat();
        let unknown: Vec<_> = found.iter().filter(|word| !known.contains(&word.as_str())).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn all_violations_are_found() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["name"],
            "properties": {
                "name": { "type": "string", "minLength": 2 },
                "kind": { "type": "string", "enum": ["a", "b"] },
                "count": { "type": "integer", "minimum": -1, "maximum": u64::MAX },
                "rate": { "type": "number", "maximum": 0.5 },
                "list": { "type": "array", "items": { "type": "string", "pattern": "^[0-9]$" } },
                "free": { "type": "object", "additionalProperties": { "type": "boolean" } },
            },
        });
        let key = |key: &str| Step::Key(key.to_owned());
        let found = |value: Value| -> Vec<(Vec<Step>, String)> {
            let found = violations(&value, Rule::new(&schema));
            found
                .into_iter()
                .map(|(steps, violation)| {
                    (steps, format!("{violation:?}").split('(').next().unwrap().to_owned())
                })
                .collect()
        };
        assert_eq!(
            found(
                json!({ "name": "ab", "count": u64::MAX, "rate": -1, "list": ["7"], "free": { "x": true } })
            ),
            []
        );
        let wrong =
            json!({ "kind": "c", "count": -2, "rate": 0.6, "list": [1, "x"], "free": { "x": 1 }, "new": 0 });
        let expected = [
            (vec![], "MissingKey"),
            (vec![key("count")], "Minimum"),
            (vec![key("free"), key("x")], "Type"),
            (vec![key("kind")], "Choice"),
            (vec![key("list"), Step::Index(0)], "Type"),
            (vec![key("list"), Step::Index(1)], "Pattern"),
            (vec![], "UnknownKey"),
            (vec![key("rate")], "Maximum"),
        ];
        assert_eq!(found(wrong), expected.map(|(steps, name)| (steps, name.to_owned())));
        assert_eq!(found(json!({ "name": "é" })), [(vec![key("name")], "MinLength".to_owned())]);
        assert_eq!(found(json!({ "name": 1 })), [(vec![key("name")], "Type".to_owned())]);
        assert_eq!(found(json!([])), [(vec![], "Type".to_owned())]);
    }
}
