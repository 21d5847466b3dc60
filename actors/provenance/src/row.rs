//! Rows of the provenance storage.

use std::{fmt, ops::Range};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::method::{Method, Relation};

/// Identifier of an entity: the 20 raw bytes of a SHA1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Sha1Git(pub [u8; 20]);

/// Date in microseconds since 1970 (UTC), from year 1 to year 9999, the range of the original's
/// dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Date(i64);

/// Data of a revision.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
pub struct RevisionData {
    /// Date of the revision.
    pub date: Option<Date>,
    /// Preferred origin.
    pub origin: Option<Sha1Git>,
}

/// One row of a relation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelationRow {
    /// Source.
    pub src: Sha1Git,
    /// Destination.
    pub dst: Sha1Git,
    /// Path of the source in the destination, any bytes.
    pub path: Option<Bytes>,
}

/// Rows of one method, in order. Keys may repeat until [`Rows::resolve`](crate::conflicts) leaves
/// one row for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// Contents.
    Contents(Vec<(Sha1Git, Option<Date>)>),
    /// Directories.
    Directories(Vec<(Sha1Git, Option<Date>)>),
    /// Revisions.
    Revisions(Vec<(Sha1Git, RevisionData)>),
    /// Origins and their urls.
    Origins(Vec<(Sha1Git, String)>),
    /// Paths.
    Locations(Vec<Bytes>),
    /// Rows of one relation.
    Relations(Relation, Vec<RelationRow>),
}

impl Sha1Git {
    /// SHA1 of `bytes`. The identifier of an origin is that of its url.
    pub fn of(bytes: &[u8]) -> Self {
        use sha1::Digest;
        Self(sha1::Sha1::digest(bytes).into())
    }
}

impl Date {
    /// 0001-01-01T00:00:00Z.
    pub const MIN: Self = Self(-62_135_596_800_000_000);
    /// 9999-12-31T23:59:59.999999Z.
    pub const MAX: Self = Self(253_402_300_799_999_999);

    /// Returns None for a date outside of [`Self::MIN`] to [`Self::MAX`].
    pub fn from_micros(micros: i64) -> Option<Self> {
        (Self::MIN.0..=Self::MAX.0).contains(&micros).then_some(Self(micros))
    }

    /// Counts from 1970.
    pub fn micros(self) -> i64 {
        self.0
    }
}

impl Rows {
    /// Returns an empty value for `method`.
    pub fn none(method: Method) -> Self {
        match method {
            Method::ContentAdd => Self::Contents(Vec::new()),
            Method::DirectoryAdd => Self::Directories(Vec::new()),
            Method::RevisionAdd => Self::Revisions(Vec::new()),
            Method::OriginAdd => Self::Origins(Vec::new()),
            Method::LocationAdd => Self::Locations(Vec::new()),
            Method::RelationAdd(relation) => Self::Relations(relation, Vec::new()),
        }
    }

    /// Returns the method of the rows.
    pub fn method(&self) -> Method {
        match self {
            Self::Contents(_) => Method::ContentAdd,
            Self::Directories(_) => Method::DirectoryAdd,
            Self::Revisions(_) => Method::RevisionAdd,
            Self::Origins(_) => Method::OriginAdd,
            Self::Locations(_) => Method::LocationAdd,
            Self::Relations(relation, _) => Method::RelationAdd(*relation),
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Contents(rows) | Self::Directories(rows) => rows.len(),
            Self::Revisions(rows) => rows.len(),
            Self::Origins(rows) => rows.len(),
            Self::Locations(rows) => rows.len(),
            Self::Relations(_, rows) => rows.len(),
        }
    }

    /// Returns the rows at the positions `range`.
    ///
    /// # Panics
    /// If `range` is out of bounds.
    pub fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Contents(rows) => Self::Contents(rows[range].to_vec()),
            Self::Directories(rows) => Self::Directories(rows[range].to_vec()),
            Self::Revisions(rows) => Self::Revisions(rows[range].to_vec()),
            Self::Origins(rows) => Self::Origins(rows[range].to_vec()),
            Self::Locations(rows) => Self::Locations(rows[range].to_vec()),
            Self::Relations(relation, rows) => Self::Relations(*relation, rows[range].to_vec()),
        }
    }

    /// Returns true without rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Sha1Git {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha1Git {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Sha1Git {
    type Err = InvalidSha1;

    fn from_str(text: &str) -> Result<Self, InvalidSha1> {
        let mut id = [0; 20];
        if text.len() != 40 || !text.is_ascii() {
            return Err(InvalidSha1);
        }
        for (byte, pair) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16).ok_or(InvalidSha1);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Self(id))
    }
}

/// Error of a text that is not an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an identifier is 40 hex digits")]
pub struct InvalidSha1;
