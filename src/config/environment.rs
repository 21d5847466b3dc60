//! The layer of environment variables: `ORCHESTRATOR__QUEUE__HOLD_SECS` is `queue.hold_secs`.
//!
//! - Two underscores separate sections, entries and keys. Case is ignored.
//! - An entry of an array is identified by its name, with an underscore for every other character than a
//!   letter or digit: `ORCHESTRATOR__INGESTER__BEAM_LINE__REDIS_URL` is `redis_url` of the entry `beam-line`.
//! - A column that a rule writes is the configured one with that name, else a new one as written:
//!   `ORCHESTRATOR__CATALOG__LAB__RULE__CONVERT__DONE__state`.
//! - A variable with the prefix that is not a key is an error.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use config::{Value, ValueKind};

use super::{
    assignment,
    report::{Diagnostic, one_line},
    schema::{Rule, Schema},
};

/// Prefix of the configuration variables. `ORCHESTRATOR_SOCKET`, with one underscore, belongs to the command
/// line.
const PREFIX: &str = "ORCHESTRATOR__";

/// Configuration variables of this process.
pub(crate) fn of_process() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| has_prefix(name)).collect()
}

fn has_prefix(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// Reads each configuration variable in `variables` as a tree. `below` holds the merged weaker layers, with
/// entries by name.
pub(super) fn read(
    variables: &[(OsString, OsString)],
    schema: &Schema,
    below: &Value,
) -> Vec<Result<Value, Diagnostic>> {
    // Sorted, so that the same environment gives the same configuration and the same errors.
    let variables: BTreeMap<_, _> =
        variables.iter().filter(|(name, _)| has_prefix(name)).map(|(name, value)| (name, value)).collect();
    variables
        .into_iter()
        .map(|(name, value)| {
            let position = one_line([b"environment ", name.as_encoded_bytes()].concat());
            let (Some(name), Some(text)) = (name.to_str(), value.to_str()) else {
                let text = "the value is not UTF-8; change or unset it".to_owned();
                return Err(Diagnostic { position, key: String::new(), text });
            };
            let path = path(&name[PREFIX.len()..], Some(schema.root()), Some(below));
            assignment::tree(&path, text, &position, schema, below)
        })
        .collect()
}

/// Path of the key that a name without its prefix refers to. Unknown names are kept in lower case; the check
/// against the schema reports them.
fn path(rest: &str, rule: Option<Rule<'_>>, below: Option<&Value>) -> Vec<String> {
    let inner = match below.map(|value| &value.kind) {
        Some(ValueKind::Table(table)) => Some(table),
        _ => None,
    };
    let (segment, after, rule) = match rule.and_then(Rule::named_item) {
        Some(item) => {
            let names = inner.into_iter().flat_map(|table| table.keys());
            let (name, after) = entry(rest, names);
            (name, after, Some(item))
        }
        None if rule.is_some_and(Rule::is_free) => {
            let (column, after) = entry(rest, inner.into_iter().flat_map(|table| table.keys()));
            (column, after, None)
        }
        None => {
            let (segment, after) = split(rest);
            let key = segment.to_ascii_lowercase();
            let rule = rule.and_then(|rule| rule.key(&key));
            (key, after, rule)
        }
    };
    let below = inner.and_then(|table| table.get(&segment));
    let mut path = vec![segment];
    if let Some(after) = after {
        path.extend(self::path(after, rule, below));
    }
    path
}

fn split(rest: &str) -> (&str, Option<&str>) {
    match rest.split_once("__") {
        Some((segment, after)) => (segment, Some(after)),
        None => (rest, None),
    }
}

/// Entry at the start of `rest`, the longest of several, and the text behind it.
fn entry<'a, 'n>(rest: &'a str, names: impl Iterator<Item = &'n String>) -> (String, Option<&'a str>) {
    let mut matching: Vec<_> = names
        .filter_map(|name| {
            let (begins, after) = rest.split_at_checked(name.chars().count())?;
            if !is_variable_name(begins, name) {
                return None;
            }
            match after {
                "" => Some((name, None)),
                after => after.strip_prefix("__").map(|after| (name, Some(after))),
            }
        })
        .collect();
    // An exact spelling wins, since both `a-b` and `a_b` may exist.
    matching.sort_by_key(|(name, _)| (name.len(), rest.starts_with(name.as_str()), (*name).clone()));
    match matching.pop() {
        Some((name, after)) => (name.clone(), after),
        None => {
            let (segment, after) = split(rest);
            (segment.to_owned(), after)
        }
    }
}

/// True if `text` is the spelling of the entry `name` in a variable. Both have the same number of characters.
fn is_variable_name(text: &str, name: &str) -> bool {
    text.len() == name.chars().count()
        && text.chars().zip(name.chars()).all(|(written, expected)| {
            written.eq_ignore_ascii_case(&expected) || (written == '_' && !expected.is_ascii_alphanumeric())
        })
}
