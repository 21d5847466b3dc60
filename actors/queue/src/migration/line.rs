//! Lines of a dump: one JSON object for the header, one for each row, one for the trailer.

use std::collections::BTreeMap;

use orchestrator_queue_rules::lines::LINE_BYTES_MAX;
use orchestrator_queue_store::migration::{Counters, Kind, Row, Table, Value};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap as _};

/// Longest line, in bytes: a payload may have six bytes for each of its own.
pub(super) const DUMP_LINE_BYTES_MAX: u64 = 7 * LINE_BYTES_MAX as u64;

/// First line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// Version of the format.
    pub(super) orchestrator_queue_dump: u32,
    pub(super) counters: Counters,
}

/// The version of the format.
pub(super) const FORMAT: u32 = 1;

/// Last line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trailer {
    /// Number of rows of each table.
    pub(super) rows: BTreeMap<String, u64>,
    /// Checksum of all lines before this one, with their ends.
    pub(super) sha256: String,
}

/// Beginning of a line with a row.
pub(super) const ROW: &[u8] = b"{\"table\":";

/// Row with its table, then its columns in their order.
struct TableRow<'a>(Table, &'a [Value]);

impl Serialize for TableRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("table", self.0.name())?;
        for ((column, _), value) in self.0.columns().iter().zip(self.1) {
            object.serialize_entry(column, value)?;
        }
        object.end()
    }
}

/// Returns `line` as JSON, with its end.
pub(super) fn text(line: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}

/// Returns the line of a row, with its end.
pub(super) fn row_text(table: Table, row: &[Value]) -> Vec<u8> {
    text(&TableRow(table, row))
}

/// Reads the line of a row.
///
/// # Errors
/// The reason, which names the column.
pub(super) fn parse(line: &[u8]) -> Result<(Table, Row), String> {
    let mut values: BTreeMap<String, Value> =
        serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let table = match values.remove("table") {
        Some(Value::Text(name)) => Table::ALL.into_iter().find(|table| table.name() == name),
        _ => None,
    };
    let table = table.ok_or_else(|| "table is not that of a queue".to_owned())?;
    let mut row = Row::with_capacity(table.columns().len());
    for (column, kind) in table.columns() {
        match (kind, values.remove(*column)) {
            (_, Some(value @ Value::Null))
            | (Kind::Integer, Some(value @ Value::Integer(_)))
            | (Kind::Text, Some(value @ Value::Text(_))) => row.push(value),
            (_, None) => return Err(format!("{} has no {column}", table.name())),
            (kind, Some(_)) => return Err(format!("{column} is no {}", kind.name())),
        }
    }
    match values.keys().next() {
        None => Ok((table, row)),
        Some(column) => Err(format!("{} has no column {column}", table.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let all = Table::ALL.map(|table| {
            let value = |(at, (_, kind)): (usize, &(&str, Kind))| match (at % 3, kind) {
                (2, _) => Value::Null,
                (_, Kind::Integer) => Value::Integer(i64::MIN + at as i64),
                (_, Kind::Text) => Value::Text("a\u{1}\n\"é 1".to_owned()),
            };
            (table, table.columns().iter().enumerate().map(value).collect::<Row>())
        });
        for (table, row) in all {
            let line = row_text(table, &row);
            assert!(line.starts_with(ROW) && line.ends_with(b"\n"));
            assert_eq!(parse(&line), Ok((table, row)));
        }
    }

    #[test]
    fn a_line_that_is_no_row_is_refused_with_its_column() {
        for (line, reason) in [
            ("[]", "invalid type"),
            ("{}", "table is not"),
            (r#"{"table":"runs"}"#, "table is not"),
            (r#"{"table":"fetcher","fetcher_id":1}"#, "fetcher has no name"),
            (r#"{"table":"fetcher","fetcher_id":"1","name":"f"}"#, "fetcher_id is no integer"),
            (r#"{"table":"fetcher","fetcher_id":1,"name":2}"#, "name is no text"),
            (r#"{"table":"fetcher","fetcher_id":1.5,"name":"f"}"#, "did not match"),
            (r#"{"table":"fetcher","fetcher_id":1,"name":"f","x":1}"#, "fetcher has no column x"),
        ] {
            let refused = parse(line.as_bytes()).unwrap_err();
            assert!(refused.contains(reason), "{line}: {refused}");
        }
    }
}
