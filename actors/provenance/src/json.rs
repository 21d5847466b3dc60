//! JSON formats: import lines (CONTRACT PF11, PF12) and query results. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::{
    SignedDuration, Timestamp,
    civil::{self, DateTime},
};
use orchestrator_subsystem::output;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    method::Relation,
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::{ListedRows, Occurrence, QueryResult},
};

const EPOCH: DateTime = civil::datetime(1970, 1, 1, 0, 0, 0, 0);

/// Line of an import, for example `{"add": "content", "id": "..", "date": ".."}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "add", rename_all = "snake_case", deny_unknown_fields)]
enum JsonRow {
    /// A content.
    Content {
        /// 40 hex digits.
        id: Id,
        /// RFC 3339.
        date: Option<JsonDate>,
    },
    /// A directory.
    Directory {
        /// 40 hex digits.
        id: Id,
        /// RFC 3339.
        date: Option<JsonDate>,
    },
    /// A revision.
    Revision {
        /// 40 hex digits.
        id: Id,
        /// RFC 3339.
        date: Option<JsonDate>,
        /// The preferred origin.
        origin: Option<Id>,
    },
    /// An origin.
    Origin {
        /// Identifier; default: SHA1 of the url.
        id: Option<Id>,
        /// Url of the origin.
        url: String,
    },
    /// A path.
    Location(Path),
    /// A content early in a revision.
    ContentInRevision(RelationEnds),
    /// A content in a directory.
    ContentInDirectory(RelationEnds),
    /// A directory in a revision.
    DirectoryInRevision(RelationEnds),
    /// A revision in an origin.
    RevisionInOrigin(RelationEnds),
    /// A revision and its parent.
    RevisionBeforeRevision(RelationEnds),
}

/// Path as text, or in hex digits if it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Path {
    path: Option<String>,
    path_hex: Option<String>,
}

/// A row of a relation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RelationEnds {
    src: Id,
    dst: Id,
    path: Option<String>,
    path_hex: Option<String>,
}

/// Identifier in hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Id(Sha1Git);

impl TryFrom<String> for Id {
    type Error = crate::row::InvalidSha1;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

/// Date in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct JsonDate(Date);

impl TryFrom<String> for JsonDate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // Rounded down, as in a message (CONTRACT PP12).
        let instant = text.parse().map(|instant: Timestamp| instant.as_nanosecond().div_euclid(1_000) as i64);
        // `Timestamp` excludes the last day of year 9999, which is year 10000 in some time zones.
        let micros = instant.ok().or_else(|| {
            let wall: DateTime = text.strip_suffix('Z')?.parse().ok()?;
            i64::try_from(wall.duration_since(EPOCH).as_micros()).ok()
        });
        let micros =
            micros.ok_or_else(|| format!("{text} is not a date: write it like 2005-03-18T01:58:31Z"))?;
        let date = Date::from_micros(micros);
        date.map(Self).ok_or_else(|| format!("{text} is out of range: dates are in the years 1 to 9999"))
    }
}

/// Parses a line of an import.
///
/// # Errors
/// Text of the error.
pub(crate) fn read(line: Value) -> Result<Rows, String> {
    let row: JsonRow = serde_json::from_value(line).map_err(|error| error.to_string())?;
    let known = |date: Option<JsonDate>| date.map(|date| date.0);
    Ok(match row {
        JsonRow::Content { id, date } => Rows::Contents(vec![(id.0, known(date))]),
        JsonRow::Directory { id, date } => Rows::Directories(vec![(id.0, known(date))]),
        JsonRow::Revision { id, date, origin } => {
            let origin = origin.map(|origin| origin.0);
            Rows::Revisions(vec![(id.0, RevisionData { date: known(date), origin })])
        }
        JsonRow::Origin { id, url } => {
            Rows::Origins(vec![(id.map_or_else(|| Sha1Git::of(url.as_bytes()), |id| id.0), url)])
        }
        JsonRow::Location(Path { path: text, path_hex }) => {
            Rows::Locations(vec![path(text, path_hex)?.ok_or("a location needs a path")?])
        }
        JsonRow::ContentInRevision(ends) => ends.into_rows(Relation::ContentInRevision)?,
        JsonRow::ContentInDirectory(ends) => ends.into_rows(Relation::ContentInDirectory)?,
        JsonRow::DirectoryInRevision(ends) => ends.into_rows(Relation::DirectoryInRevision)?,
        JsonRow::RevisionInOrigin(ends) => ends.into_rows(Relation::RevisionInOrigin)?,
        JsonRow::RevisionBeforeRevision(ends) => ends.into_rows(Relation::RevisionBeforeRevision)?,
    })
}

impl RelationEnds {
    fn into_rows(self, relation: Relation) -> Result<Rows, String> {
        let path = path(self.path, self.path_hex)?;
        if path.is_some() != relation.has_path() {
            let word = if relation.has_path() { "a" } else { "no" };
            return Err(format!("a row of {} has {word} path", relation.value()));
        }
        Ok(Rows::Relations(relation, vec![RelationRow { src: self.src.0, dst: self.dst.0, path }]))
    }
}

fn path(text: Option<String>, hex: Option<String>) -> Result<Option<Bytes>, String> {
    match (text, hex) {
        (Some(_), Some(_)) => Err("path and path_hex exclude each other".to_owned()),
        (Some(text), None) => Ok(Some(text.into())),
        (None, Some(hex)) => {
            unhex(&hex).map(Some).ok_or_else(|| "path_hex must be pairs of hex digits".to_owned())
        }
        (None, None) => Ok(None),
    }
}

fn unhex(hex: &str) -> Option<Bytes> {
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
}

/// Returns the import line of each row; the inverse of [`read`].
pub(crate) fn import_lines(rows: &Rows) -> Vec<Value> {
    let dated = |add: &str, rows: &[(Sha1Git, Option<Date>)]| -> Vec<Value> {
        let line = |(id, date): &(Sha1Git, Option<Date>)| json!({ "add": add, "id": id.to_string(), "date": date.map(date_text) });
        rows.iter().map(line).collect()
    };
    match rows {
        Rows::Contents(rows) => dated("content", rows),
        Rows::Directories(rows) => dated("directory", rows),
        Rows::Revisions(rows) => rows
            .iter()
            .map(|(id, RevisionData { date, origin })| {
                let origin = origin.map(|origin| origin.to_string());
                json!({ "add": "revision", "id": id.to_string(), "date": date.map(date_text), "origin": origin })
            })
            .collect(),
        Rows::Origins(rows) => rows
            .iter()
            .map(|(id, url)| json!({ "add": "origin", "id": id.to_string(), "url": url }))
            .collect(),
        Rows::Locations(paths) => paths.iter().map(|path| added("location", shown_path(path))).collect(),
        Rows::Relations(of, rows) => rows.iter().map(|row| added(of.value(), relation(row))).collect(),
    }
}

fn added(add: &str, mut line: Map<String, Value>) -> Value {
    line.insert("add".to_owned(), json!(add));
    Value::Object(line)
}

/// Returns a query result as JSON.
pub(crate) fn to_json(found: QueryResult) -> Value {
    match found {
        QueryResult::Dates(dates) => object(dates, |date| json!(date_text(date))),
        QueryResult::Revisions(revisions) => object(
            revisions,
            |data| json!({ "date": data.date.map(date_text), "origin": data.origin.map(|id| id.to_string()) }),
        ),
        QueryResult::Urls(urls) => object(urls, Value::String),
        QueryResult::Occurrences(occurrences) => occurrences.iter().map(occurrence).collect(),
        QueryResult::Counts(counts) => json!(counts),
        QueryResult::Page(page) => listed(&page.rows).into_iter().map(Value::Object).collect(),
    }
}

/// Returns the rows of a page as lines of JSON objects, each with a line end.
pub(crate) fn lines(rows: &ListedRows) -> String {
    listed(rows).iter().map(|line| output::json(line) + "\n").collect()
}

fn listed(rows: &ListedRows) -> Vec<Map<String, Value>> {
    match rows {
        ListedRows::Ids(ids) => ids.iter().map(identifier).collect(),
        ListedRows::Paths(paths) => paths.iter().map(shown_path).collect(),
        ListedRows::Relations(rows) => rows.iter().map(relation).collect(),
    }
}

fn identifier(id: &Sha1Git) -> Map<String, Value> {
    Map::from_iter([("id".to_owned(), Value::String(id.to_string()))])
}

fn object<T>(map: BTreeMap<Sha1Git, T>, to_json: impl Fn(T) -> Value) -> Value {
    Value::Object(map.into_iter().map(|(id, value)| (id.to_string(), to_json(value))).collect())
}

fn relation(row: &RelationRow) -> Map<String, Value> {
    let mut shown = row.path.as_ref().map(shown_path).unwrap_or_default();
    shown.insert("src".to_owned(), json!(row.src.to_string()));
    shown.insert("dst".to_owned(), json!(row.dst.to_string()));
    shown
}

fn occurrence(found: &Occurrence) -> Value {
    let mut shown = shown_path(&found.path);
    shown.insert("content".to_owned(), json!(found.content.to_string()));
    shown.insert("revision".to_owned(), json!(found.revision.to_string()));
    shown.insert("date".to_owned(), json!(found.date.map(date_text)));
    shown.insert("origin".to_owned(), json!(found.origin));
    Value::Object(shown)
}

fn shown_path(path: &Bytes) -> Map<String, Value> {
    let (name, text) = match std::str::from_utf8(path) {
        Ok(text) => ("path", text.to_owned()),
        Err(_) => ("path_hex", path.iter().map(|byte| format!("{byte:02x}")).collect()),
    };
    Map::from_iter([(name.to_owned(), Value::String(text))])
}

fn date_text(date: Date) -> String {
    // Every [`Date`] is in the range of the type.
    let wall = EPOCH.checked_add(SignedDuration::from_micros(date.micros()));
    wall.map(|wall| format!("{wall}Z")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
