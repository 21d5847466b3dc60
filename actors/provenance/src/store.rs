//! Interface of all provenance stores (CONTRACT PD01 to PD03): traits, queries, results and errors.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use orchestrator_observe::{FailureKind, LinkFailure};

use crate::{
    listing::{Listing, Position},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
};

/// Queries of a store.
pub trait StoreReader {
    /// Answers a query; all writes that returned before are visible.
    ///
    /// # Errors
    /// As for [`Store::write`].
    fn read(&mut self, query: &Query) -> impl Future<Output = Result<QueryResult, StoreError>>;
}

/// Store of provenance rows. A value serves one caller at a time; a store with concurrent access is
/// opened several times.
pub trait Store: StoreReader {
    /// Writes `groups` in order, in one transaction where the store has transactions. All rows are
    /// durable when it returns. Each group has rows of one method, with each key once. Writing the
    /// same rows again changes nothing.
    ///
    /// New rows merge with stored rows by these rules. A content or directory keeps the earlier
    /// date. A revision keeps the earlier date, and the new origin if there is one. An origin, its
    /// url and a location stay as first stored. Relations are sets.
    ///
    /// # Errors
    /// [`StoreError::Refused`]: at least one row is permanently refused, and no row was stored.
    /// [`StoreError::Undecided`]: the same if it fails again and again; some rows may be stored.
    /// [`StoreError::Unavailable`]: trying again may help.
    fn write(&mut self, groups: &[Rows]) -> impl Future<Output = Result<OmittedRows, StoreError>>;
}

/// Rows that a successful write left out, as the original does (CONTRACT PE05, PE06).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OmittedRows {
    /// Relations with an end or a path that is not registered.
    pub unregistered: u64,
    /// Origins whose url is known under another identifier.
    pub url_taken: u64,
    /// Revisions stored without their preferred origin, which is not registered.
    pub origin_unknown: u64,
}

/// Error of a write or a query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The data is invalid, for example a path too long for an index. Trying again is of no use.
    #[error("{0}")]
    Refused(String),
    /// The store fails for a reason that may be the data. Trying again a few times shows it.
    #[error("{0}")]
    Undecided(String),
    /// The store is unreachable, locked, full or stopping. Trying again may help.
    #[error("{0}")]
    Unavailable(LinkFailure),
}

/// Reason why the link to the store is down.
impl From<&StoreError> for LinkFailure {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Refused(reason) | StoreError::Undecided(reason) => {
                Self::new(FailureKind::Refused, reason)
            }
            StoreError::Unavailable(failure) => failure.clone(),
        }
    }
}

impl StoreError {
    /// Creates the error of a store that may be available again later.
    pub(crate) fn unavailable(reason: impl Into<LinkFailure>) -> Self {
        Self::Unavailable(reason.into())
    }
}

/// Query of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Dates of contents: [`QueryResult::Dates`], without those that have no date.
    Contents(Vec<Sha1Git>),
    /// Dates of directories: [`QueryResult::Dates`].
    Directories(Vec<Sha1Git>),
    /// Data of revisions: [`QueryResult::Revisions`], without those that have neither date nor
    /// origin.
    Revisions(Vec<Sha1Git>),
    /// Urls of origins: [`QueryResult::Urls`].
    Origins(Vec<Sha1Git>),
    /// First occurrence of a content: [`QueryResult::Occurrences`] with at most one. Only
    /// `content_in_revision` counts. The order is that of CONTRACT PO10: date, revision, origin's
    /// url, path; unknown values last.
    FindFirst(Sha1Git),
    /// All occurrences of a content, also through directories, in the same order:
    /// [`QueryResult::Occurrences`]. The path through a directory joins both paths with a slash; if
    /// the directory's path is empty or `.`, it is the content's path.
    FindAll {
        /// The content.
        id: Sha1Git,
        /// Maximum number of occurrences.
        limit: Option<u64>,
    },
    /// Number of rows of each table: [`QueryResult::Counts`].
    Counts,
    /// One page of a listing: [`QueryResult::Page`]. The pages together have each row that was
    /// stored before the first page was read (CONTRACT PD16).
    Page {
        /// Rows to list.
        listing: Listing,
        /// End of the page before; None for the first page.
        after: Option<Position>,
        /// Maximum number of rows, at least 1.
        limit: usize,
    },
}

impl Query {
    /// Method in the original's interface; `stats` is an addition.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Contents(_) => "content_get",
            Self::Directories(_) => "directory_get",
            Self::Revisions(_) => "revision_get",
            Self::Origins(_) => "origin_get",
            Self::FindFirst(_) => "content_find_first",
            Self::FindAll { .. } => "content_find_all",
            Self::Counts => "stats",
            Self::Page { listing, .. } => listing.method(),
        }
    }
}

/// Result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryResult {
    /// Dates by identifier.
    Dates(BTreeMap<Sha1Git, Date>),
    /// Revisions by identifier.
    Revisions(BTreeMap<Sha1Git, RevisionData>),
    /// Urls by identifier.
    Urls(BTreeMap<Sha1Git, String>),
    /// Occurrences in order.
    Occurrences(Vec<Occurrence>),
    /// Rows by table.
    Counts(BTreeMap<String, u64>),
    /// A page of a listing.
    Page(Page),
}

/// Page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Rows of the page.
    pub rows: ListedRows,
    /// End of the page if there may be more rows.
    pub next: Option<Position>,
}

/// Rows of a page, in no particular order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedRows {
    /// Identifiers.
    Ids(BTreeSet<Sha1Git>),
    /// Paths.
    Paths(BTreeSet<Bytes>),
    /// Rows of a relation.
    Relations(BTreeSet<RelationRow>),
}

/// Occurrence of a content (the original's `ProvenanceResult`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// The content.
    pub content: Sha1Git,
    /// The revision.
    pub revision: Sha1Git,
    /// The revision's date.
    pub date: Option<Date>,
    /// Url of the revision's preferred origin.
    pub origin: Option<String>,
    /// Path in the revision; empty in a store without paths.
    pub path: Bytes,
}

/// Maximum length of a path in [`Rows::Locations`] and a url in [`Rows::Origins`], in bytes. It is
/// the limit of a b-tree index entry of PostgreSQL (CONTRACT PE01). All stores apply it, so that
/// they accept the same rows.
pub(crate) const INDEXED_MAX_BYTES: usize = 2_704;

/// Checks `rows` against the limits of all stores, before each write. Paths of relations are not
/// checked: an unregistered path leaves out its row.
///
/// # Errors
/// [`StoreError::Refused`] with the first row beyond a limit.
pub(crate) fn check(rows: &Rows) -> Result<(), StoreError> {
    let fits = |what: &str, len: usize| {
        if len > INDEXED_MAX_BYTES {
            let reason = format!("{what} of {len} bytes: the maximum is {INDEXED_MAX_BYTES}");
            return Err(StoreError::Refused(reason));
        }
        Ok(())
    };
    match rows {
        Rows::Locations(paths) => paths.iter().try_for_each(|path| fits("path", path.len())),
        Rows::Origins(origins) => origins.iter().try_for_each(|(id, url)| {
            if url.contains('\0') {
                return Err(StoreError::Refused(format!(
                    "url of origin {id} contains a NUL, which is not allowed"
                )));
            }
            fits("url", url.len())
        }),
        Rows::Contents(_) | Rows::Directories(_) | Rows::Revisions(_) | Rows::Relations(..) => Ok(()),
    }
}
