//! Rows in a store after a load, as plain values, and the rows expected by the model of the
//! conformance suite.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use crate::{
    method::Relation,
    row::{Date, RevisionData, Rows, Sha1Git},
    store::OmittedRows,
    tests::conformance::Model,
};

pub(crate) type Id = [u8; 20];
pub(crate) type Triple = (Id, Id, Option<Vec<u8>>);

/// Content of a store. Tables without a key are vectors, so that duplicates show.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) contents: BTreeMap<Id, Option<i64>>,
    pub(crate) directories: BTreeMap<Id, Option<i64>>,
    pub(crate) revisions: BTreeMap<Id, (Option<i64>, Option<Id>)>,
    pub(crate) origins: BTreeMap<Id, String>,
    pub(crate) locations: BTreeSet<Vec<u8>>,
    pub(crate) relations: BTreeMap<Relation, BTreeSet<Triple>>,
}

/// Adds one call to the model. The last url that a message gives an origin counts.
pub(crate) fn take(model: &mut Model, rows: &Rows) {
    let last = match rows {
        Rows::Origins(rows) => {
            let last: BTreeMap<Sha1Git, String> = rows.iter().cloned().collect();
            Some(Rows::Origins(last.into_iter().collect()))
        }
        _ => None,
    };
    model.group(last.as_ref().unwrap_or(rows), &mut OmittedRows::default()).expect("no row that is refused");
}

impl From<Model> for Held {
    fn from(model: Model) -> Self {
        let dated = |dates: BTreeMap<Sha1Git, Option<Date>>| {
            dates.into_iter().map(|(id, date)| (id.0, date.map(Date::micros))).collect()
        };
        let revision = |data: RevisionData| (data.date.map(Date::micros), data.origin.map(|id| id.0));
        let bare = |rows: BTreeSet<(Sha1Git, Sha1Git, Option<Vec<u8>>)>| {
            rows.into_iter().map(|(src, dst, path)| (src.0, dst.0, path)).collect()
        };
        Self {
            contents: dated(model.contents),
            directories: dated(model.directories),
            revisions: model.revisions.into_iter().map(|(id, data)| (id.0, revision(data))).collect(),
            origins: model.origins.into_iter().map(|(id, url)| (id.0, url)).collect(),
            locations: model.locations,
            relations: model.relations.into_iter().map(|(name, rows)| (name, bare(rows))).collect(),
        }
    }
}

impl Held {
    /// Checks that exactly one of the origins that claim a url has it, and removes it from the
    /// comparison.
    pub(crate) fn settle_contested(&mut self, contested: &[(String, [Id; 2])]) {
        for (url, claimants) in contested {
            let winners: Vec<_> = claimants.iter().filter(|id| self.origins.get(*id) == Some(url)).collect();
            assert_eq!(winners.len(), 1, "origins that have the contested {url}: {winners:02x?}");
            claimants.iter().for_each(|id| drop(self.origins.remove(id)));
        }
    }

    /// Makes all paths of relations locations, for stores without a table of paths.
    pub(crate) fn register_paths(&mut self) {
        let rows = self.relations.values().flatten();
        self.locations = rows.filter_map(|(_, _, path)| path.clone()).collect();
    }

    /// Compares all rows; the message names the first difference.
    pub(crate) fn assert_equals(&self, expected: &Self) {
        same(&self.contents, &expected.contents, "content");
        same(&self.directories, &expected.directories, "directory");
        same(&self.revisions, &expected.revisions, "revision");
        same(&self.origins, &expected.origins, "origin");
        same(&self.locations, &expected.locations, "location");
        for relation in Relation::ALL {
            same(&self.relations[&relation], &expected.relations[&relation], relation.value());
        }
    }

    /// Rows of all tables.
    pub(crate) fn len(&self) -> usize {
        let relations: usize = self.relations.values().map(BTreeSet::len).sum();
        let entities =
            self.contents.len() + self.directories.len() + self.revisions.len() + self.origins.len();
        entities + self.locations.len() + relations
    }
}

/// Both are ordered, so a parallel walk finds the first difference.
fn same<'a, C, T>(got: &'a C, expected: &'a C, table: &str)
where
    &'a C: IntoIterator<Item = T>,
    T: PartialEq + Debug,
{
    let (mut got, mut expected) = (got.into_iter(), expected.into_iter());
    for row in 0_u64.. {
        match (got.next(), expected.next()) {
            (None, None) => return,
            (one, other) => {
                assert!(one == other, "{table}, row {row}: {one:02x?} in place of {other:02x?}")
            }
        }
    }
}
