//! Tables of JSON objects.

use std::collections::BTreeSet;

use jiff::Timestamp;
use orchestrator_subsystem::columns::align;
use serde_json::{Map, Value};

/// Columns of attempts that are shown first.
pub(super) const ATTEMPT_COLUMNS: [&str; 6] =
    ["attr_path", "exit_code", "started", "seconds", "fetcher", "connection"];
/// Columns with a time, in unix seconds.
const TIMES: [&str; 4] = ["started", "finished", "last_started", "listed"];
/// Maximum width of a table cell, in characters; `--json` shows the whole text.
const CELL_MAX: usize = 60;

pub(super) type Object = Map<String, Value>;

/// Formats `rows` with the columns `first` before the others, or returns `empty`.
pub(super) fn table(rows: &[Object], first: &[&str], empty: &str) -> String {
    if rows.is_empty() {
        return empty.to_owned();
    }
    let known: BTreeSet<&str> = rows.iter().flat_map(Object::keys).map(String::as_str).collect();
    let others = known.iter().copied().filter(|name| !first.contains(name));
    let columns: Vec<&str> =
        first.iter().copied().filter(|name| known.contains(name)).chain(others).collect();
    let is_number = |name: &&str| {
        !TIMES.contains(name) && rows.iter().all(|row| row.get(*name).is_none_or(Value::is_number))
    };
    let right: Vec<usize> = (0..columns.len()).filter(|i| is_number(&columns[*i])).collect();
    let head = columns.iter().map(|name| name.replace('_', " ").to_uppercase()).collect();
    let cells = |row: &Object| columns.iter().map(|name| named_cell(name, row)).collect();
    let lines: Vec<_> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    align(&lines, &right)
}

fn named_cell(name: &str, row: &Object) -> String {
    match row.get(name) {
        Some(Value::Number(time)) if TIMES.contains(&name) => timestamp(time.as_i64().unwrap_or(0)),
        Some(value) => cell(value),
        None => String::new(),
    }
}

/// Formats a JSON value as a table cell.
pub(super) fn cell(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    if text.chars().count() <= CELL_MAX {
        return text;
    }
    text.chars().take(CELL_MAX - 1).chain(['…']).collect()
}

/// Formats unix seconds in UTC.
pub(super) fn timestamp(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}
