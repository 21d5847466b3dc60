//! Conflict resolution: merges rows with the same key, in a batch or in the writer (CONTRACT PO01
//! to PO05). Pure.
//!
//! Two sets of rules differ in one point. Within a batch the last url of an origin wins; between
//! batches the first one does, as in the store. Both keep the earliest date, the last known origin
//! of a revision, and sets of paths and relations.
//!
//! Rows are vectors, sorted stably by key and folded from left to right. For a few thousand rows
//! that is faster than a map.

use crate::row::{Date, RevisionData, Rows, Sha1Git};

/// Url of an origin that is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Url {
    First,
    Last,
}

impl Rows {
    /// Leaves one row for each key, sorted by key, from rows in order of arrival (CONTRACT PO01 to
    /// PO04).
    ///
    /// A key without data is kept.
    #[must_use]
    pub fn resolve(mut self) -> Self {
        self.merge_keys(Url::Last);
        self
    }

    /// Appends rows of the same method, without conflict resolution.
    ///
    /// # Errors
    /// Returns `other` if it has another method.
    pub fn append(&mut self, other: Self) -> Result<(), Self> {
        match (self, other) {
            (Self::Contents(rows), Self::Contents(mut other))
            | (Self::Directories(rows), Self::Directories(mut other)) => rows.append(&mut other),
            (Self::Revisions(rows), Self::Revisions(mut other)) => rows.append(&mut other),
            (Self::Origins(rows), Self::Origins(mut other)) => rows.append(&mut other),
            (Self::Locations(rows), Self::Locations(mut other)) => rows.append(&mut other),
            (Self::Relations(relation, rows), Self::Relations(theirs, mut other)) if *relation == theirs => {
                rows.append(&mut other);
            }
            (_, other) => return Err(other),
        }
        Ok(())
    }

    /// Merges the resolved batch `later` into this resolved batch. Writing the result equals
    /// writing both in order.
    ///
    /// Two exceptions concern rows that no correct sender makes. An unregistered origin in `later`
    /// hides an earlier registered origin of a revision. Of two origins with one url, the one with
    /// the smaller identifier is stored instead of the first.
    ///
    /// # Errors
    /// Returns `later` if it has another method.
    pub fn merge(&mut self, later: Self) -> Result<(), Self> {
        self.append(later)?;
        self.merge_keys(Url::First);
        Ok(())
    }

    /// Merges the rows of each key. It keeps the earliest date, the last known origin of a revision, and the
    /// first or last url of an origin. Equal paths and relations are kept once.
    fn merge_keys(&mut self, url: Url) {
        match self {
            Self::Contents(rows) | Self::Directories(rows) => {
                fold(rows, |first, later: &mut Option<Date>| {
                    *first = earliest(*first, *later);
                })
            }
            Self::Revisions(rows) => fold(rows, |first, later: &mut RevisionData| {
                first.date = earliest(first.date, later.date);
                first.origin = later.origin.or(first.origin);
            }),
            Self::Origins(rows) => fold(rows, |first, later| {
                if url == Url::Last {
                    std::mem::swap(first, later);
                }
            }),
            Self::Locations(rows) => {
                rows.sort();
                rows.dedup();
            }
            Self::Relations(_, rows) => {
                rows.sort();
                rows.dedup();
            }
        }
    }
}

/// Leaves one row for each identifier: the first, with the later ones merged into it in order.
fn fold<T>(rows: &mut Vec<(Sha1Git, T)>, merge: impl Fn(&mut T, &mut T)) {
    rows.sort_by_key(|row| row.0);
    rows.dedup_by(|later, first| {
        let same = later.0 == first.0;
        if same {
            merge(&mut first.1, &mut later.1);
        }
        same
    });
}

/// An unknown date is later than any.
fn earliest(one: Option<Date>, other: Option<Date>) -> Option<Date> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
