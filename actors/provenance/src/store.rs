//! Interface of all provenance stores (CONTRACT PD01 to PD03): the trait, its questions and its errors.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{
    method::{Entity, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
};

/// Answers questions about what was written.
pub trait Ask {
    /// Answers a question about what was written before.
    ///
    /// # Errors
    /// As for [`Store::write`].
    fn read(&mut self, question: &Question) -> impl Future<Output = Result<Found, StoreError>>;
}

/// A store of provenance rows. One value serves one caller at a time; a store that can do more is opened more than once.
pub trait Store: Ask {
    /// Writes each of `groups` (rows of one method that went through conflict resolution, so each key appears once in a
    /// group) in order, ALL in one transaction where the store has any: when it returns, all of it is durable. Writing the
    /// same rows again changes nothing.
    ///
    /// Rows meet what is stored by these rules: date of a content or directory = the earlier; date of a revision = the
    /// earlier, its origin = the new one unless that is none; an origin, a url and a location stay as they were first;
    /// relations are sets.
    ///
    /// # Errors
    /// [`StoreError::Refused`]: at least one row can never be stored, and none was; [`StoreError::Away`]: later, maybe.
    fn write(&mut self, groups: &[Rows]) -> impl Future<Output = Result<Written, StoreError>>;
}

/// Rows that are not in the store although the write succeeded: the original drops them in silence and acks them, so do we,
/// but we count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Relations with an end or a path that is not registered.
    pub unregistered: u64,
    /// Origins whose url is known under another identifier.
    pub url_taken: u64,
    /// Revisions stored without their preferred origin, which is not registered.
    pub origin_unknown: u64,
}

/// Why rows were not written or a question not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The data itself: trying again is of no use (a path too long for an index, a NUL in a text).
    #[error("{0}")]
    Refused(String),
    /// The store: it is away, locked, full or stopping. Trying again may help.
    #[error("{0}")]
    Away(String),
}

/// A question to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Dates of contents: [`Found::Dates`]; those without date are absent.
    Contents(Vec<Sha1Git>),
    /// Dates of directories: [`Found::Dates`].
    Directories(Vec<Sha1Git>),
    /// Data of revisions: [`Found::Revisions`]; those with neither date nor origin are absent.
    Revisions(Vec<Sha1Git>),
    /// Urls of origins: [`Found::Urls`].
    Origins(Vec<Sha1Git>),
    /// All identifiers of a kind: [`Found::Ids`].
    AllEntities(Entity),
    /// All paths: [`Found::Paths`].
    AllLocations,
    /// Rows of a relation whose source, or, `reverse`, whose destination, is among the identifiers: [`Found::Relations`].
    Relations {
        /// Which relation.
        relation: Relation,
        /// Sources, or destinations.
        ids: Vec<Sha1Git>,
        /// Do they name destinations?
        reverse: bool,
    },
    /// All rows of a relation: [`Found::Relations`].
    AllRelations(Relation),
    /// Where a content appeared first: [`Found::Occurrences`] with one or none. Only `content_in_revision` counts, ordered by
    /// date (unknown dates last), revision, origin (its url; unknown last), path.
    FindFirst(Sha1Git),
    /// Everywhere that a content appears: [`Found::Occurrences`], also through directories, in the same order. A path through
    /// a directory is the content's path if the directory's is empty or `.`, else both with a slash between.
    FindAll {
        /// Which content.
        id: Sha1Git,
        /// At most so many.
        limit: Option<u64>,
    },
    /// How many rows each table has: [`Found::Counts`].
    Counts,
}

impl Question {
    /// The method of the original's interface that asks it; `stats` is ours.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Contents(_) => "content_get",
            Self::Directories(_) => "directory_get",
            Self::Revisions(_) => "revision_get",
            Self::Origins(_) => "origin_get",
            Self::AllEntities(_) => "entity_get_all",
            Self::AllLocations => "location_get_all",
            Self::Relations { .. } => "relation_get",
            Self::AllRelations(_) => "relation_get_all",
            Self::FindFirst(_) => "content_find_first",
            Self::FindAll { .. } => "content_find_all",
            Self::Counts => "stats",
        }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Dates by identifier.
    Dates(BTreeMap<Sha1Git, Date>),
    /// Revisions by identifier.
    Revisions(BTreeMap<Sha1Git, RevisionData>),
    /// Urls by identifier.
    Urls(BTreeMap<Sha1Git, String>),
    /// Identifiers.
    Ids(BTreeSet<Sha1Git>),
    /// Paths.
    Paths(BTreeSet<Bytes>),
    /// Rows of a relation.
    Relations(BTreeSet<RelationRow>),
    /// Occurrences in order.
    Occurrences(Vec<Occurrence>),
    /// Rows by table.
    Counts(BTreeMap<String, u64>),
}

/// Where a content appears (the original's `ProvenanceResult`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// The content.
    pub content: Sha1Git,
    /// In which revision.
    pub revision: Sha1Git,
    /// The revision's date.
    pub date: Option<Date>,
    /// Url of the revision's preferred origin.
    pub origin: Option<String>,
    /// Where in the revision; empty in a store without paths.
    pub path: Bytes,
}

/// Longest path of [`Rows::Locations`], and longest url of [`Rows::Origins`], in bytes. It is what a btree of PostgreSQL
/// takes (CONTRACT PE01); every store keeps to it, so that what is stored does not depend on where.
pub const INDEXED_MAX_BYTES: usize = 2_704;

/// Can every one of `rows` be stored? All stores ask this before they write; what it lets through, only a store's own limits
/// can refuse. Paths of relations are not looked at: a path that cannot be registered is one that is not registered.
///
/// # Errors
/// [`StoreError::Refused`] about the first row that cannot.
pub fn check(rows: &Rows) -> Result<(), StoreError> {
    let fits = |what: &str, len: usize| {
        if len > INDEXED_MAX_BYTES {
            let reason = format!("{what} of {len} bytes: the store takes {INDEXED_MAX_BYTES} at most");
            return Err(StoreError::Refused(reason));
        }
        Ok(())
    };
    match rows {
        Rows::Locations(paths) => paths.iter().try_for_each(|path| fits("path", path.len())),
        Rows::Origins(origins) => origins.iter().try_for_each(|(id, url)| {
            if url.contains('\0') {
                return Err(StoreError::Refused(format!(
                    "url of origin {id} contains a NUL: the store takes none"
                )));
            }
            fits("url", url.len())
        }),
        Rows::Contents(_) | Rows::Directories(_) | Rows::Revisions(_) | Rows::Relations(..) => Ok(()),
    }
}
