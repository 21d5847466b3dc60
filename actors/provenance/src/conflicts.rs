//! Resolution of rows with the same key, in a batch or in the writer (CONTRACT PO01 to PO05). Pure.
//!
//! Two sets of rules, which differ in one place. Inside a batch the messages' order decides: the last url of an origin wins.
//! Between batches the store decides: the first url stays. Everything else is the same for both: the earliest date, the
//! last known origin of a revision, sets of paths and of relations.
//!
//! Rows are vectors, sorted stably by key and folded from left to right: for the few thousand rows of a batch that is
//! faster than a map, and rows that are sorted already (two resolved batches) are merged in one pass.

use crate::row::{Date, RevisionData, Rows, Sha1Git};

/// Which url of an origin stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Url {
    First,
    Last,
}

impl Rows {
    /// One row for each key, sorted by key, from the rows of a batch in the order of their arrival (CONTRACT PO01 to PO04).
    ///
    /// A key without any data stays, without data.
    #[must_use]
    pub fn resolve(mut self) -> Self {
        self.settle(Url::Last);
        self
    }

    /// Puts rows of the same method behind these, with no regard to keys.
    ///
    /// # Errors
    /// Gives the rows back if they are of another method.
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

    /// Makes two resolved batches one, so that writing it has the outcome of writing these rows and then `later`.
    ///
    /// Two outcomes can differ, both about rows that no sender should make. A revision's origin that is not registered
    /// is none to a store, which only the store knows: it hides an earlier, registered one here. And of two origins that
    /// claim one url the store takes the first, here the one with the smaller identifier.
    ///
    /// # Errors
    /// Gives the rows back if they are of another method.
    pub fn absorb(&mut self, later: Self) -> Result<(), Self> {
        self.append(later)?;
        self.settle(Url::First);
        Ok(())
    }

    fn settle(&mut self, url: Url) {
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

/// Leaves one row for each identifier: the first, into which `merge` put the later ones, in order.
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

/// Of two dates that may be unknown.
fn earliest(one: Option<Date>, other: Option<Date>) -> Option<Date> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
