//! What a store holds after a load: an independent model, for final states only and therefore fast. Plain values, maps and
//! loops, written from the contract (§6, §8) and sharing no code with the product.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Debug;

use orchestrator_provenance::method::Relation;
use orchestrator_provenance::row::{RevisionData, Rows};

use super::Kind;

pub(crate) type Id = [u8; 20];
pub(crate) type Triple = (Id, Id, Option<Vec<u8>>);

/// All that a store holds. Tables without a key are vectors where they come from a store: a row twice is seen.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) contents: BTreeMap<Id, Option<i64>>,
    pub(crate) directories: BTreeMap<Id, Option<i64>>,
    pub(crate) revisions: BTreeMap<Id, (Option<i64>, Option<Id>)>,
    pub(crate) origins: BTreeMap<Id, String>,
    pub(crate) locations: BTreeSet<Vec<u8>>,
    pub(crate) relations: BTreeMap<Relation, BTreeSet<Triple>>,
}

/// The model.
pub(crate) struct Model {
    kind: Kind,
    pub(crate) held: Held,
    urls: HashSet<String>,
}

impl Model {
    pub(crate) fn new(kind: Kind) -> Self {
        let relations = Relation::ALL.into_iter().map(|relation| (relation, BTreeSet::new())).collect();
        Self { kind, held: Held { relations, ..Held::default() }, urls: HashSet::new() }
    }

    /// One call.
    pub(crate) fn take(&mut self, rows: &Rows) {
        match rows {
            Rows::Contents(rows) => rows.iter().for_each(|(id, date)| {
                earliest(self.held.contents.entry(id.0).or_default(), date.map(|date| date.micros()));
            }),
            Rows::Directories(rows) => rows.iter().for_each(|(id, date)| {
                earliest(self.held.directories.entry(id.0).or_default(), date.map(|date| date.micros()));
            }),
            Rows::Revisions(rows) => rows.iter().for_each(|(id, data)| self.revision(id.0, *data)),
            Rows::Origins(rows) => {
                // The last url of a message; then the first one that is stored.
                let last: BTreeMap<Id, &String> = rows.iter().map(|(id, url)| (id.0, url)).collect();
                last.into_iter().for_each(|(id, url)| self.origin(id, url));
            }
            Rows::Locations(paths) if self.kind.locations => {
                self.held.locations.extend(paths.iter().map(|path| path.to_vec()));
            }
            Rows::Locations(_) => {}
            Rows::Relations(relation, rows) => {
                for row in rows {
                    self.relation(
                        *relation,
                        row.src.0,
                        row.dst.0,
                        row.path.as_ref().map(|path| path.to_vec()),
                    );
                }
            }
        }
    }

    fn origin(&mut self, id: Id, url: &str) {
        if self.held.origins.contains_key(&id) || (self.kind.urls_unique && self.urls.contains(url)) {
            return;
        }
        self.urls.insert(url.to_owned());
        self.held.origins.insert(id, url.to_owned());
    }

    fn revision(&mut self, id: Id, data: RevisionData) {
        let (date, origin) = self.held.revisions.entry(id).or_default();
        earliest(date, data.date.map(|date| date.micros()));
        if let Some(named) = data.origin.filter(|named| self.held.origins.contains_key(&named.0)) {
            *origin = Some(named.0);
        }
    }

    fn relation(&mut self, relation: Relation, src: Id, dst: Id, path: Option<Vec<u8>>) {
        let held = &self.held;
        let (src_known, dst_known, has_path) = match relation {
            Relation::ContentInRevision => {
                (held.contents.contains_key(&src), held.revisions.contains_key(&dst), true)
            }
            Relation::ContentInDirectory => {
                (held.contents.contains_key(&src), held.directories.contains_key(&dst), true)
            }
            Relation::DirectoryInRevision => {
                (held.directories.contains_key(&src), held.revisions.contains_key(&dst), true)
            }
            Relation::RevisionInOrigin => {
                (held.revisions.contains_key(&src), held.origins.contains_key(&dst), false)
            }
            Relation::RevisionBeforeRevision => {
                (held.revisions.contains_key(&src), held.revisions.contains_key(&dst), false)
            }
        };
        let path = path.filter(|_| has_path && self.kind.with_path);
        let path_known = match &path {
            Some(path) => !self.kind.locations || held.locations.contains(path),
            None => !(has_path && self.kind.with_path),
        };
        if src_known && dst_known && path_known {
            self.held.relations.entry(relation).or_default().insert((src, dst, path));
        }
    }
}

fn earliest(known: &mut Option<i64>, date: Option<i64>) {
    *known = match (*known, date) {
        (Some(known), Some(date)) if known <= date => Some(known),
        (known, None) => known,
        (_, date) => date,
    };
}

impl Held {
    /// Of the origins that claim one url, exactly one has it; then, whichever it is, it is out of the comparison.
    pub(crate) fn settle_contested(&mut self, contested: &[(String, [Id; 2])]) {
        for (url, claimants) in contested {
            let winners: Vec<_> = claimants.iter().filter(|id| self.origins.get(*id) == Some(url)).collect();
            assert_eq!(winners.len(), 1, "origins that have the contested {url}: {winners:02x?}");
            claimants.iter().for_each(|id| drop(self.origins.remove(id)));
        }
    }

    /// Where there is no table of paths, all paths of relations are the locations.
    pub(crate) fn register_paths(&mut self) {
        let rows = self.relations.values().flatten();
        self.locations = rows.filter_map(|(_, _, path)| path.clone()).collect();
    }

    /// Every row of both, with the first ones that differ.
    pub(crate) fn assert_equals(&self, expected: &Self, by: &str) {
        same(&self.contents, &expected.contents, by, "content");
        same(&self.directories, &expected.directories, by, "directory");
        same(&self.revisions, &expected.revisions, by, "revision");
        same(&self.origins, &expected.origins, by, "origin");
        same(&self.locations, &expected.locations, by, "location");
        for relation in Relation::ALL {
            same(&self.relations[&relation], &expected.relations[&relation], by, relation.value());
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

/// Both are ordered, so the first difference is found by walking side by side.
fn same<'a, C, T>(got: &'a C, expected: &'a C, by: &str, table: &str)
where
    &'a C: IntoIterator<Item = T>,
    T: PartialEq + Debug,
{
    let (mut got, mut expected) = (got.into_iter(), expected.into_iter());
    for row in 0_u64.. {
        match (got.next(), expected.next()) {
            (None, None) => return,
            (one, other) => {
                assert!(one == other, "{table} by {by}, row {row}: {one:02x?} in place of {other:02x?}")
            }
        }
    }
}
