//! JSON formats: import lines (CONTRACT PF11, PF12), exports and answers. Pure.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::{
    SignedDuration, Timestamp,
    civil::{self, DateTime},
};
use orchestrator_subsystem::output;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    method::Relation,
    row::{Date, InvalidSha1, RelationRow, RevisionData, Rows, Sha1Git},
    store::{ListedRows, Occurrence, QueryResult},
};

const EPOCH: DateTime = civil::datetime(1970, 1, 1, 0, 0, 0, 0);

/// Line of an import, for example `{"add": "content", "id": "..", "date": ".."}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "add", rename_all = "snake_case", deny_unknown_fields)]
enum JsonRow {
    Content {
        id: Sha1Git,
        date: Option<Date>,
    },
    Directory {
        id: Sha1Git,
        date: Option<Date>,
    },
    Revision {
        id: Sha1Git,
        date: Option<Date>,
        /// The preferred origin.
        origin: Option<Sha1Git>,
    },
    Origin {
        /// Default: SHA1 of the url.
        id: Option<Sha1Git>,
        url: String,
    },
    Location(Path),
    /// A content early in a revision.
    ContentInRevision(RelationEnds),
    ContentInDirectory(RelationEnds),
    DirectoryInRevision(RelationEnds),
    RevisionInOrigin(RelationEnds),
    /// A revision and its parent.
    RevisionBeforeRevision(RelationEnds),
}

/// Path as text, or in hex digits if it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Path {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

/// A row of a relation. An export has the fields in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RelationEnds {
    dst: Sha1Git,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    src: Sha1Git,
}

/// Identifier of an entity in an export.
#[derive(Debug, Serialize)]
struct Identifier {
    id: Sha1Git,
}

/// Stored attributes by identifier, the answer to the verb `get`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Attributes {
    /// Of contents and directories, RFC 3339.
    Dates(BTreeMap<Sha1Git, Date>),
    Revisions(BTreeMap<Sha1Git, RevisionData>),
    /// Of origins.
    Urls(BTreeMap<Sha1Git, String>),
}

/// Occurrence of a content in the answers to the verbs `find-first` and `find-all`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct OccurrenceRow {
    /// Date of the revision, RFC 3339.
    date: Option<Date>,
    revision: Sha1Git,
    /// Url of the revision's preferred origin.
    origin: Option<String>,
    #[serde(flatten)]
    path: Path,
    content: Sha1Git,
}

impl Attributes {
    /// None if the result is that of another query.
    pub(crate) fn of(found: QueryResult) -> Option<Self> {
        match found {
            QueryResult::Dates(dates) => Some(Self::Dates(dates)),
            QueryResult::Revisions(revisions) => Some(Self::Revisions(revisions)),
            QueryResult::Urls(urls) => Some(Self::Urls(urls)),
            _ => None,
        }
    }
}

impl OccurrenceRow {
    /// None if the result is that of another query.
    pub(crate) fn all_of(found: QueryResult) -> Option<Vec<Self>> {
        match found {
            QueryResult::Occurrences(found) => Some(found.into_iter().map(Self::from).collect()),
            _ => None,
        }
    }
}

impl From<Occurrence> for OccurrenceRow {
    fn from(Occurrence { content, revision, date, origin, path }: Occurrence) -> Self {
        Self { date, revision, origin, path: Path::from(&path), content }
    }
}

impl TryFrom<String> for Sha1Git {
    type Error = InvalidSha1;

    fn try_from(text: String) -> Result<Self, InvalidSha1> {
        text.parse()
    }
}

impl From<Sha1Git> for String {
    fn from(id: Sha1Git) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for Date {
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
        Self::from_micros(micros)
            .ok_or_else(|| format!("{text} is out of range: dates are in the years 1 to 9999"))
    }
}

impl From<Date> for String {
    fn from(date: Date) -> Self {
        // Every [`Date`] is in the range of the type.
        let wall = EPOCH.checked_add(SignedDuration::from_micros(date.micros()));
        wall.map(|wall| format!("{wall}Z")).unwrap_or_default()
    }
}

/// Parses a line of an import.
///
/// # Errors
/// Text of the error.
pub(crate) fn read(line: Value) -> Result<Rows, String> {
    let row: JsonRow = serde_json::from_value(line).map_err(|error| error.to_string())?;
    Ok(match row {
        JsonRow::Content { id, date } => Rows::Contents(vec![(id, date)]),
        JsonRow::Directory { id, date } => Rows::Directories(vec![(id, date)]),
        JsonRow::Revision { id, date, origin } => Rows::Revisions(vec![(id, RevisionData { date, origin })]),
        JsonRow::Origin { id, url } => {
            Rows::Origins(vec![(id.unwrap_or_else(|| Sha1Git::of(url.as_bytes())), url)])
        }
        JsonRow::Location(path) => {
            Rows::Locations(vec![path.into_bytes()?.ok_or("a location needs a path")?])
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
        let Self { src, dst, path, path_hex } = self;
        let path = Path { path, path_hex }.into_bytes()?;
        if path.is_some() != relation.has_path() {
            let word = if relation.has_path() { "a" } else { "no" };
            return Err(format!("a row of {} has {word} path", relation.value()));
        }
        Ok(Rows::Relations(relation, vec![RelationRow { src, dst, path }]))
    }
}

impl From<&RelationRow> for RelationEnds {
    fn from(RelationRow { src, dst, path }: &RelationRow) -> Self {
        let Path { path, path_hex } = path.as_ref().map(Path::from).unwrap_or_default();
        Self { src: *src, dst: *dst, path, path_hex }
    }
}

impl Path {
    fn into_bytes(self) -> Result<Option<Bytes>, String> {
        match (self.path, self.path_hex) {
            (Some(_), Some(_)) => Err("path and path_hex exclude each other".to_owned()),
            (Some(text), None) => Ok(Some(text.into())),
            (None, Some(hex)) => {
                unhex(&hex).map(Some).ok_or_else(|| "path_hex must be pairs of hex digits".to_owned())
            }
            (None, None) => Ok(None),
        }
    }
}

impl From<&Bytes> for Path {
    fn from(path: &Bytes) -> Self {
        match std::str::from_utf8(path) {
            Ok(text) => Self { path: Some(text.to_owned()), path_hex: None },
            Err(_) => {
                Self { path: None, path_hex: Some(path.iter().map(|byte| format!("{byte:02x}")).collect()) }
            }
        }
    }
}

fn unhex(hex: &str) -> Option<Bytes> {
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return None;
    }
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
}

/// One line for each row; the inverse of [`read`].
pub(crate) fn import_lines(rows: &Rows) -> Vec<Value> {
    let lines: Vec<JsonRow> = match rows {
        Rows::Contents(rows) => rows.iter().map(|&(id, date)| JsonRow::Content { id, date }).collect(),
        Rows::Directories(rows) => rows.iter().map(|&(id, date)| JsonRow::Directory { id, date }).collect(),
        Rows::Revisions(rows) => {
            let line = |&(id, RevisionData { date, origin })| JsonRow::Revision { id, date, origin };
            rows.iter().map(line).collect()
        }
        Rows::Origins(rows) => {
            rows.iter().map(|(id, url)| JsonRow::Origin { id: Some(*id), url: url.clone() }).collect()
        }
        Rows::Locations(paths) => paths.iter().map(|path| JsonRow::Location(path.into())).collect(),
        Rows::Relations(relation, rows) => {
            let line = match relation {
                Relation::ContentInRevision => JsonRow::ContentInRevision,
                Relation::ContentInDirectory => JsonRow::ContentInDirectory,
                Relation::DirectoryInRevision => JsonRow::DirectoryInRevision,
                Relation::RevisionInOrigin => JsonRow::RevisionInOrigin,
                Relation::RevisionBeforeRevision => JsonRow::RevisionBeforeRevision,
            };
            rows.iter().map(|row| line(row.into())).collect()
        }
    };
    lines.iter().map(|line| serde_json::to_value(line).unwrap_or_default()).collect()
}

/// JSON objects, each with a line end.
pub(crate) fn lines(rows: &ListedRows) -> String {
    fn all<T: Serialize>(rows: impl Iterator<Item = T>) -> String {
        rows.map(|row| output::json(&row) + "\n").collect()
    }
    match rows {
        ListedRows::Ids(ids) => all(ids.iter().map(|id| Identifier { id: *id })),
        ListedRows::Paths(paths) => all(paths.iter().map(Path::from)),
        ListedRows::Relations(rows) => all(rows.iter().map(RelationEnds::from)),
    }
}

#[cfg(test)]
mod tests;
