//! Text of an answer for a terminal: a list or a map of structs is a table with columns in the order of the
//! fields, one struct is a list of names and values.

use std::{collections::BTreeMap, fmt, marker::PhantomData, ops::Range};

use jiff::Timestamp;
use orchestrator_text::{NUMBER_OR_TIME, TIME};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use crate::columns::align;

/// Unix seconds that are plausible, of 2001 to 5138.
const SECONDS: Range<i64> = 1_000_000_000..100_000_000_000;
/// Maximum width of a table cell, in characters; `--json` shows the whole text.
const CELL_MAX: usize = 60;

/// Fields of a struct in their order.
struct Fields<T = Value>(Vec<(String, T)>);

/// Formats `answer`, or returns `empty` for an empty list or map. Its strings have no line ends.
pub fn of<T: Serialize + JsonSchema>(answer: &T, empty: &str) -> String {
    let json = serde_json::to_string(answer).unwrap_or_default();
    let times = times(&SchemaGenerator::default().into_root_schema_for::<T>().to_value());
    if let Ok(rows) = serde_json::from_str::<Vec<Fields>>(&json) {
        return if rows.is_empty() { empty.to_owned() } else { table(&rows, &times) };
    }
    if let Ok(Fields(rows)) = serde_json::from_str::<Fields<Fields>>(&json) {
        let row =
            |(name, row): (String, Fields)| Fields([vec![("name".to_owned(), name.into())], row.0].concat());
        let rows: Vec<_> = rows.into_iter().map(row).collect();
        return if rows.is_empty() { empty.to_owned() } else { table(&rows, &times) };
    }
    match serde_json::from_str::<Fields>(&json) {
        Ok(Fields(fields)) => {
            let row = |(name, value): &(String, Value)| vec![name.clone(), formatted(value, times.get(name))];
            align(&fields.iter().map(row).collect::<Vec<_>>(), &[1])
        }
        Err(_) => format!("{}\n", serde_json::from_str(&json).map_or(json, |value| cell(&value))),
    }
}

fn table(rows: &[Fields], times: &BTreeMap<String, String>) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.0) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let is_number = |name: &str| {
        !times.contains_key(name) && rows.iter().all(|row| row.get(name).is_none_or(Value::is_number))
    };
    let right: Vec<usize> = (0..columns.len()).filter(|i| is_number(columns[*i])).collect();
    let head = columns.iter().map(|name| name.replace('_', " ").to_uppercase()).collect();
    let cells = |row: &Fields| {
        let text =
            |name: &&str| row.get(name).map_or_else(String::new, |value| formatted(value, times.get(*name)));
        columns.iter().map(text).collect()
    };
    let lines: Vec<_> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    align(&lines, &right)
}

/// Formats a value as a table cell, as its schema format says.
fn formatted(value: &Value, format: Option<&String>) -> String {
    let number = value.as_i64().filter(|_| format.is_some());
    let is_time = format.is_some_and(|format| format == TIME);
    match number {
        Some(seconds) if is_time || SECONDS.contains(&seconds) => time_of(seconds),
        Some(nanos) if SECONDS.contains(&(nanos / 1_000_000_000)) => time_of(nanos / 1_000_000_000),
        _ => cell(value),
    }
}

/// Formats a value as a table cell.
pub fn cell(value: &Value) -> String {
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
pub fn time_of(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// Formats a time in milliseconds since 1970, without the fraction.
pub fn time_of_ms(ms: u64) -> String {
    time_of(i64::try_from(ms / 1_000).unwrap_or(i64::MAX))
}

/// Schema formats of the fields that are times, by name.
fn times(schema: &Value) -> BTreeMap<String, String> {
    match schema {
        Value::Object(map) => {
            let fields = map.get("properties").and_then(Value::as_object).into_iter().flatten();
            let own = fields.filter_map(|(name, field)| {
                let format =
                    field["format"].as_str().filter(|format| [TIME, NUMBER_OR_TIME].contains(format))?;
                Some((name.clone(), format.to_owned()))
            });
            own.chain(map.values().flat_map(times)).collect()
        }
        Value::Array(list) => list.iter().flat_map(times).collect(),
        _ => BTreeMap::new(),
    }
}

impl Fields {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fields<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
            type Value = Fields<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<T>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Row {
        path: String,
        count: u32,
        #[schemars(extend("format" = TIME))]
        #[serde(skip_serializing_if = "Option::is_none")]
        started_at: Option<i64>,
        done: bool,
    }

    #[derive(Serialize, JsonSchema)]
    struct Run {
        #[schemars(extend("format" = NUMBER_OR_TIME))]
        run: i64,
    }

    fn row(path: &str, count: u32, started_at: Option<i64>) -> Row {
        Row { path: path.to_owned(), count, started_at, done: count > 1 }
    }

    #[test]
    fn a_number_that_is_plausible_as_a_time_is_one() {
        let cases = [
            (5, "5"),
            (-5, "-5"),
            (999_999_999, "999999999"),
            (1_700_000_000, "2023-11-14T22:13:20Z"),
            (1_700_000_000_123, "1700000000123"),
            (1_700_000_000_123_456_789, "2023-11-14T22:13:20Z"),
            (i64::MAX, "2262-04-11T23:47:16Z"),
        ];
        for (run, expected) in cases {
            assert_eq!(of(&[Run { run }], ""), format!("RUN\n{expected}\n"));
        }
    }

    #[test]
    fn a_list_is_a_table_with_columns_in_the_order_of_the_fields() {
        let rows = [row("a", 1, Some(0)), row(&"é".repeat(70), 20, None)];
        let line = |path: &str, count: &str, at: &str, done: &str| {
            format!("{path:<60}  {count:>5}  {at:<20}  {done}\n")
        };
        let expected = line("PATH", "COUNT", "STARTED AT", "DONE")
            + &line("a", "1", "1970-01-01T00:00:00Z", "no")
            + &line(&format!("{}…", "é".repeat(59)), "20", "", "yes");
        assert_eq!(of(&rows, "none\n"), expected);
        assert_eq!(of::<[Row; 0]>(&[], "none\n"), "none\n");
    }

    #[test]
    fn a_map_of_structs_is_a_table_with_a_column_of_names() {
        let rows = BTreeMap::from([("x", row("a", 1, None)), ("y", row("b", 10, Some(0)))]);
        let expected = "NAME  PATH  COUNT  DONE  STARTED AT\n\
                        x     a         1  no\n\
                        y     b        10  yes   1970-01-01T00:00:00Z\n";
        assert_eq!(of(&rows, "none\n"), expected);
        assert_eq!(of(&BTreeMap::<String, Row>::new(), "none\n"), "none\n");
    }

    #[test]
    fn a_struct_is_a_list_of_names_and_values() {
        assert_eq!(of(&row("a", 1, None), ""), "path    a\ncount   1\ndone   no\n");
    }
}
