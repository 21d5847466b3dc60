//! Rows and answers as JSON: the lines that are imported and what operators are shown. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::{
    SignedDuration, Timestamp,
    civil::{self, DateTime},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    method::{Method, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::{Found, Occurrence},
};

const EPOCH: DateTime = civil::datetime(1970, 1, 1, 0, 0, 0, 0);

/// One row as it is imported, `{"add": "content", "id": "..", "date": ".."}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "add", rename_all = "snake_case", deny_unknown_fields)]
pub enum JsonRow {
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
        /// SHA1 of the url, if left out.
        id: Option<Id>,
        /// Where it is.
        url: String,
    },
    /// A path.
    Location(Path),
    /// A content early in a revision.
    ContentInRevision(Ends),
    /// A content in a directory.
    ContentInDirectory(Ends),
    /// A directory in a revision.
    DirectoryInRevision(Ends),
    /// A revision in an origin.
    RevisionInOrigin(Ends),
    /// A revision and its parent.
    RevisionBeforeRevision(Ends),
}

/// A path: as text, or, when it is none, in hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    path: Option<String>,
    path_hex: Option<String>,
}

/// A row of a relation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    src: Id,
    dst: Id,
    path: Option<String>,
    path_hex: Option<String>,
}

/// An identifier in hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Id(pub Sha1Git);

impl TryFrom<String> for Id {
    type Error = crate::row::NotSha1;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

/// An instant in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct JsonDate(Date);

impl TryFrom<String> for JsonDate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let instant = text.parse().map(|instant: Timestamp| instant.as_microsecond());
        // The last day of year 9999 is beyond the other type's range, since it is the next year somewhere on Earth.
        let micros = instant.ok().or_else(|| {
            let wall: DateTime = text.strip_suffix('Z')?.parse().ok()?;
            i64::try_from(wall.duration_since(EPOCH).as_micros()).ok()
        });
        let micros =
            micros.ok_or_else(|| format!("{text} is no date: write it like 2005-03-18T01:58:31Z"))?;
        let date = Date::from_micros(micros);
        date.map(Self).ok_or_else(|| format!("{text} is out of range: dates are in the years 1 to 9999"))
    }
}

impl JsonRow {
    /// Reads a row.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(value: Value) -> Result<Self, String> {
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    /// Whose row it is.
    pub fn method(&self) -> Method {
        match self {
            Self::Content { .. } => Method::ContentAdd,
            Self::Directory { .. } => Method::DirectoryAdd,
            Self::Revision { .. } => Method::RevisionAdd,
            Self::Origin { .. } => Method::OriginAdd,
            Self::Location(_) => Method::LocationAdd,
            Self::ContentInRevision(_) => Method::RelationAdd(Relation::ContentInRevision),
            Self::ContentInDirectory(_) => Method::RelationAdd(Relation::ContentInDirectory),
            Self::DirectoryInRevision(_) => Method::RelationAdd(Relation::DirectoryInRevision),
            Self::RevisionInOrigin(_) => Method::RelationAdd(Relation::RevisionInOrigin),
            Self::RevisionBeforeRevision(_) => Method::RelationAdd(Relation::RevisionBeforeRevision),
        }
    }

    /// The row as rows of one.
    ///
    /// # Errors
    /// What is wrong with its path.
    pub fn into_rows(self) -> Result<Rows, String> {
        Ok(match (self.method(), self) {
            (_, Self::Content { id, date }) => Rows::Contents(vec![(id.0, date.map(|date| date.0))]),
            (_, Self::Directory { id, date }) => Rows::Directories(vec![(id.0, date.map(|date| date.0))]),
            (_, Self::Revision { id, date, origin }) => {
                let data =
                    RevisionData { date: date.map(|date| date.0), origin: origin.map(|origin| origin.0) };
                Rows::Revisions(vec![(id.0, data)])
            }
            (_, Self::Origin { id, url }) => {
                Rows::Origins(vec![(id.map_or_else(|| Sha1Git::of(url.as_bytes()), |id| id.0), url)])
            }
            (_, Self::Location(Path { path: text, path_hex })) => {
                Rows::Locations(vec![path(text, path_hex)?.ok_or("a location needs a path")?])
            }
            (
                Method::RelationAdd(relation),
                Self::ContentInRevision(ends)
                | Self::ContentInDirectory(ends)
                | Self::DirectoryInRevision(ends)
                | Self::RevisionInOrigin(ends)
                | Self::RevisionBeforeRevision(ends),
            ) => Rows::Relations(relation, vec![ends.into_row(relation)?]),
            (method, _) => return Err(format!("{method} has no ends")),
        })
    }
}

impl Ends {
    fn into_row(self, relation: Relation) -> Result<RelationRow, String> {
        let path = path(self.path, self.path_hex)?;
        if path.is_some() != relation.has_path() {
            let word = if relation.has_path() { "a" } else { "no" };
            return Err(format!("a row of {} has {word} path", relation.value()));
        }
        Ok(RelationRow { src: self.src.0, dst: self.dst.0, path })
    }
}

fn path(text: Option<String>, hex: Option<String>) -> Result<Option<Bytes>, String> {
    match (text, hex) {
        (Some(_), Some(_)) => Err("path and path_hex exclude each other".to_owned()),
        (Some(text), None) => Ok(Some(text.into())),
        (None, Some(hex)) => {
            unhex(&hex).map(Some).ok_or_else(|| "path_hex is not pairs of hex digits".to_owned())
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

/// Rows as they are imported, one value each: what [`JsonRow::read`] reads.
pub fn lines(rows: &Rows) -> Vec<Value> {
    let dated = |add: &str, rows: &[(Sha1Git, Option<Date>)]| -> Vec<Value> {
        let line = |(id, date): &(Sha1Git, Option<Date>)| json!({ "add": add, "id": id.to_string(), "date": date.map(text) });
        rows.iter().map(line).collect()
    };
    match rows {
        Rows::Contents(rows) => dated("content", rows),
        Rows::Directories(rows) => dated("directory", rows),
        Rows::Revisions(rows) => rows
            .iter()
            .map(|(id, RevisionData { date, origin })| {
                let origin = origin.map(|origin| origin.to_string());
                json!({ "add": "revision", "id": id.to_string(), "date": date.map(text), "origin": origin })
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

/// An answer for people and scripts.
pub fn show(found: Found) -> Value {
    match found {
        Found::Dates(dates) => object(dates, |date| json!(text(date))),
        Found::Revisions(revisions) => object(
            revisions,
            |data| json!({ "date": data.date.map(text), "origin": data.origin.map(|id| id.to_string()) }),
        ),
        Found::Urls(urls) => object(urls, Value::String),
        Found::Ids(ids) => ids.into_iter().map(|id| Value::String(id.to_string())).collect(),
        Found::Paths(paths) => paths.iter().map(|path| Value::Object(shown_path(path))).collect(),
        Found::Relations(rows) => rows.iter().map(|row| Value::Object(relation(row))).collect(),
        Found::Occurrences(occurrences) => occurrences.iter().map(occurrence).collect(),
        Found::Counts(counts) => json!(counts),
    }
}

fn object<T>(map: BTreeMap<Sha1Git, T>, show: impl Fn(T) -> Value) -> Value {
    Value::Object(map.into_iter().map(|(id, value)| (id.to_string(), show(value))).collect())
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
    shown.insert("date".to_owned(), json!(found.date.map(text)));
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

fn text(date: Date) -> String {
    // The range of dates is that of the type.
    let wall = EPOCH.checked_add(SignedDuration::from_micros(date.micros()));
    wall.map(|wall| format!("{wall}Z")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
