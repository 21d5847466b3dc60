//! The layer of environment variables: `ORCHESTRATOR__QUEUE__HOLD_SECS` is `queue.hold_secs`.
//!
//! Two underscores part sections, entries and keys; letters may be of either case. An entry of an array goes by its name,
//! with an underscore for whatever a variable cannot hold: `ORCHESTRATOR__INGESTER__BEAM_LINE__REDIS_URL` is `redis_url` of
//! the entry `beam-line`. Columns that rules write are told apart by their letters: the nearest of those that are there is meant, else
//! the column is what is written: `ORCHESTRATOR__CATALOG__LAB__RULE__CONVERT__DONE__state`. Whatever begins with the prefix must be a key, so that a slip does not pass silently.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use config::{Value, ValueKind};

use super::{
    assignment,
    report::{Refusal, one_line},
    schema::{Rule, Schema},
};

/// What every variable of ours begins with. One underscore is not ours: `ORCHESTRATOR_SOCKET` is the command line's.
const PREFIX: &str = "ORCHESTRATOR__";

/// The variables of this process that are ours, and no others: these may be shown.
pub(crate) fn of_process() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| is_ours(name)).collect()
}

fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// Those of `variables` that are ours, as one tree each. `below` are the layers so far, by name.
pub(super) fn read(
    variables: &[(OsString, OsString)],
    schema: &Schema,
    below: &Value,
) -> Vec<Result<Value, Refusal>> {
    // In the order of names: the same environment gives the same configuration and the same report.
    let ours: BTreeMap<_, _> =
        variables.iter().filter(|(name, _)| is_ours(name)).map(|(name, value)| (name, value)).collect();
    ours.into_iter()
        .map(|(name, value)| {
            let place = one_line([b"environment ", name.as_encoded_bytes()].concat());
            let (Some(name), Some(text)) = (name.to_str(), value.to_str()) else {
                let text = "this is no UTF-8; change or unset it".to_owned();
                return Err(Refusal { place, key: String::new(), text });
            };
            let path = path(&name[PREFIX.len()..], Some(schema.root()), Some(below));
            assignment::tree(&path, text, &place, schema, below)
        })
        .collect()
}

/// What a name without its prefix leads to. What the schema does not know is left as it is, in lower case: the check of
/// the tree will tell of it as of any other key.
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

/// The entry that `rest` begins with, the longest where several would do, and what follows it.
fn entry<'a, 'n>(rest: &'a str, names: impl Iterator<Item = &'n String>) -> (String, Option<&'a str>) {
    let mut meant: Vec<_> = names
        .filter_map(|name| {
            let (begins, after) = rest.split_at_checked(name.chars().count())?;
            if !spelled(begins, name) {
                return None;
            }
            match after {
                "" => Some((name, None)),
                after => after.strip_prefix("__").map(|after| (name, Some(after))),
            }
        })
        .collect();
    // The exact spelling before any other: `a-b` and `a_b` may both be there.
    meant.sort_by_key(|(name, _)| (name.len(), rest.starts_with(name.as_str()), (*name).clone()));
    match meant.pop() {
        Some((name, after)) => (name.clone(), after),
        None => {
            let (segment, after) = split(rest);
            (segment.to_owned(), after)
        }
    }
}

/// Is `text` the name of a variable for `name`? Both have as many characters.
fn spelled(text: &str, name: &str) -> bool {
    text.len() == name.chars().count()
        && text.chars().zip(name.chars()).all(|(written, meant)| {
            written.eq_ignore_ascii_case(&meant) || (written == '_' && !meant.is_ascii_alphanumeric())
        })
}
