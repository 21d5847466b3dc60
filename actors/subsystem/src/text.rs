//! Text of an answer for a terminal: a list or a map of structs is a table with columns in the order of the fields, one struct is a list of
//! names and values.

use std::{collections::BTreeSet, fmt, marker::PhantomData};

use jiff::Timestamp;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use crate::columns::align;

/// Schema format of a time in unix seconds: `#[schemars(extend("format" = TIME))]`.
pub const TIME: &str = "unix-time";
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
            let row = |(name, value): &(String, Value)| vec![name.clone(), cell(value, times.contains(name))];
            align(&fields.iter().map(row).collect::<Vec<_>>(), &[1])
        }
        Err(_) => format!("{}\n", serde_json::from_str(&json).map_or(json, |value| cell(&value, false))),
    }
}

fn table(rows: &[Fields], times: &BTreeSet<String>) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|row| &row.0) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let is_number = |name: &str| {
        !times.contains(name) && rows.iter().all(|row| row.get(name).is_none_or(Value::is_number))
    };
    let right: Vec<usize> = (0..columns.len()).filter(|i| is_number(columns[*i])).collect();
    let head = columns.iter().map(|name| name.replace('_', " ").to_uppercase()).collect();
    let cells = |row: &Fields| {
        let text =
            |name: &&str| row.get(name).map_or_else(String::new, |value| cell(value, times.contains(*name)));
        columns.iter().map(text).collect()
    };
    let lines: Vec<_> = std::iter::once(head).chain(rows.iter().map(cells)).collect();
    align(&lines, &right)
}

/// Formats a value as a table cell.
pub fn cell(value: &Value, is_time: bool) -> String {
    let text = match value {
        Value::Number(time) if is_time => time_of(time.as_i64().unwrap_or_default()),
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

/// Returns the names of the fields that are times.
fn times(schema: &Value) -> BTreeSet<String> {
    match schema {
        Value::Object(map) => {
            let fields = map.get("properties").and_then(Value::as_object).into_iter().flatten();
            let own = fields.filter(|(_, field)| field["format"] == TIME).map(|(name, _)| name.clone());
            own.chain(map.values().flat_map(times)).collect()
        }
        Value::Array(list) => list.iter().flat_map(times).collect(),
        _ => BTreeSet::new(),
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

    fn row(path: &str, count: u32, started_at: Option<i64>) -> Row {
        Row { path: path.to_owned(), count, started_at, done: count > 1 }
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
