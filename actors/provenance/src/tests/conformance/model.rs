//! Naive store, written from CONTRACT PO01 to PO05 and PD01 to PD03. It shares no code with the
//! product.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    listing::{End, Listing},
    method::{Entity, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::{ListedRows, Occurrence, OmittedRows, Query, QueryResult},
};

/// Permitted differences between stores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flavor {
    /// True if paths are stored. Otherwise relations are read without paths, and locations are not
    /// stored.
    pub(crate) with_path: bool,
    /// True if there is a table of paths. Otherwise every path is registered, and all locations are
    /// the paths of relations.
    pub(crate) locations: bool,
    /// True if an origin is left out whose url is known under another identifier.
    pub(crate) urls_unique: bool,
    /// True if years 1 and 9999 keep their microseconds. Otherwise only dates within 2^33 s of 1970
    /// do.
    pub(crate) exact_dates: bool,
    /// True if a table has one row for each row of a relation.
    pub(crate) counts_relations: bool,
    /// Default number of random sequences; smaller where each query is a round trip.
    pub(crate) sequences_max: u64,
    /// Number of rows of a large batch; smaller for a stand-in server.
    pub(crate) many: u32,
}

impl Flavor {
    /// All features.
    pub(crate) const FULL: Self = Self {
        with_path: true,
        locations: true,
        urls_unique: true,
        exact_dates: true,
        counts_relations: true,
        sequences_max: u64::MAX,
        many: 40_000,
    };
}

type Triple = (Sha1Git, Sha1Git, Option<Vec<u8>>);

/// Expected content of a store.
#[derive(Clone)]
pub(crate) struct Model {
    flavor: Flavor,
    pub(crate) contents: BTreeMap<Sha1Git, Option<Date>>,
    pub(crate) directories: BTreeMap<Sha1Git, Option<Date>>,
    pub(crate) revisions: BTreeMap<Sha1Git, RevisionData>,
    pub(crate) origins: BTreeMap<Sha1Git, String>,
    pub(crate) locations: BTreeSet<Vec<u8>>,
    pub(crate) relations: BTreeMap<Relation, BTreeSet<Triple>>,
    /// First origin of each url.
    urls: BTreeMap<String, Sha1Git>,
}

impl Model {
    pub(crate) fn new(flavor: Flavor) -> Self {
        Self {
            flavor,
            contents: BTreeMap::new(),
            directories: BTreeMap::new(),
            revisions: BTreeMap::new(),
            origins: BTreeMap::new(),
            locations: BTreeSet::new(),
            relations: Relation::ALL.into_iter().map(|relation| (relation, BTreeSet::new())).collect(),
            urls: BTreeMap::new(),
        }
    }

    /// Writes `groups`; returns None and stores nothing if a row is refused.
    pub(crate) fn write(&mut self, groups: &[Rows]) -> Option<OmittedRows> {
        let mut next = self.clone();
        let mut omitted = OmittedRows::default();
        for rows in groups {
            next.group(rows, &mut omitted)?;
        }
        *self = next;
        Some(omitted)
    }

    pub(crate) fn group(&mut self, rows: &Rows, omitted: &mut OmittedRows) -> Option<()> {
        match rows {
            Rows::Contents(rows) => rows.iter().for_each(|row| earliest(&mut self.contents, *row)),
            Rows::Directories(rows) => rows.iter().for_each(|row| earliest(&mut self.directories, *row)),
            Rows::Revisions(rows) => rows.iter().for_each(|row| self.revision(*row, omitted)),
            Rows::Origins(rows) => {
                for (id, url) in rows {
                    if url.contains('\0') || url.len() > 2704 {
                        return None;
                    }
                    let taken = self.urls.get(url).is_some_and(|owner| owner != id);
                    if self.origins.contains_key(id) {
                        continue;
                    } else if taken && self.flavor.urls_unique {
                        omitted.url_taken += 1;
                    } else {
                        self.urls.entry(url.clone()).or_insert(*id);
                        self.origins.insert(*id, url.clone());
                    }
                }
            }
            Rows::Locations(paths) => {
                for path in paths {
                    if path.len() > 2704 {
                        return None;
                    }
                    if self.flavor.with_path && self.flavor.locations {
                        self.locations.insert(path.to_vec());
                    }
                }
            }
            Rows::Relations(relation, rows) => {
                rows.iter().for_each(|row| self.relation(*relation, row, omitted));
            }
        }
        Some(())
    }

    fn revision(&mut self, (id, data): (Sha1Git, RevisionData), omitted: &mut OmittedRows) {
        let known = self.revisions.entry(id).or_default();
        known.date = [known.date, data.date].into_iter().flatten().min();
        match data.origin {
            Some(origin) if self.origins.contains_key(&origin) => known.origin = Some(origin),
            Some(_) => omitted.origin_unknown += 1,
            None => {}
        }
    }

    fn relation(&mut self, relation: Relation, row: &RelationRow, omitted: &mut OmittedRows) {
        let mut registered =
            self.is_known(relation.source(), row.src) && self.is_known(relation.destination(), row.dst);
        let mut path = None;
        if has_path(relation) && self.flavor.with_path {
            path = row.path.as_ref().map(|path| path.to_vec());
            registered &= match &path {
                Some(path) => !self.flavor.locations || self.locations.contains(path),
                None => false,
            };
        }
        if registered {
            self.relations.get_mut(&relation).expect("all are there").insert((row.src, row.dst, path));
        } else {
            omitted.unregistered += 1;
        }
    }

    fn ids(&self, entity: Entity) -> BTreeSet<Sha1Git> {
        match entity {
            Entity::Content => self.contents.keys().copied().collect(),
            Entity::Directory => self.directories.keys().copied().collect(),
            Entity::Revision => self.revisions.keys().copied().collect(),
            Entity::Origin => self.origins.keys().copied().collect(),
        }
    }

    fn is_known(&self, entity: Entity, id: Sha1Git) -> bool {
        match entity {
            Entity::Content => self.contents.contains_key(&id),
            Entity::Directory => self.directories.contains_key(&id),
            Entity::Revision => self.revisions.contains_key(&id),
            Entity::Origin => self.origins.contains_key(&id),
        }
    }

    pub(crate) fn read(&self, query: &Query) -> QueryResult {
        match query {
            Query::Contents(ids) => QueryResult::Dates(dated(&self.contents, ids)),
            Query::Directories(ids) => QueryResult::Dates(dated(&self.directories, ids)),
            Query::Revisions(ids) => {
                let mut found = BTreeMap::new();
                for id in ids {
                    match self.revisions.get(id) {
                        Some(data) if data.date.is_some() || data.origin.is_some() => {
                            found.insert(*id, *data);
                        }
                        _ => {}
                    }
                }
                QueryResult::Revisions(found)
            }
            Query::Origins(ids) => QueryResult::Urls(
                ids.iter().filter_map(|id| Some((*id, self.origins.get(id)?.clone()))).collect(),
            ),
            Query::FindFirst(id) => {
                let mut found = self.sorted(self.direct(*id), *id);
                found.truncate(1);
                QueryResult::Occurrences(found)
            }
            Query::FindAll { id, limit } => {
                let mut entries = self.direct(*id);
                entries.extend(self.through_directories(*id));
                let mut found = self.sorted(entries, *id);
                if let Some(limit) = limit {
                    found.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
                }
                QueryResult::Occurrences(found)
            }
            Query::Counts => QueryResult::Counts(self.counts()),
            Query::Page { .. } => unreachable!("pages are compared with the whole listing"),
        }
    }

    pub(crate) fn listed(&self, listing: Listing) -> ListedRows {
        match listing {
            Listing::Entities(entity) => ListedRows::Ids(self.ids(entity)),
            Listing::Locations if self.flavor.locations => {
                ListedRows::Paths(self.locations.iter().map(|path| path.clone().into()).collect())
            }
            Listing::Locations => {
                let paths = self.relations.values().flatten().filter_map(|(_, _, path)| path.clone());
                ListedRows::Paths(paths.map(Into::into).collect())
            }
            Listing::Relation(relation, None) => self.rows(relation, |_, _| true),
            Listing::Relation(relation, Some(End::Source(id))) => self.rows(relation, |src, _| *src == id),
            Listing::Relation(relation, Some(End::Destination(id))) => {
                self.rows(relation, |_, dst| *dst == id)
            }
        }
    }

    fn rows(&self, relation: Relation, keep: impl Fn(&Sha1Git, &Sha1Git) -> bool) -> ListedRows {
        let mut found = BTreeSet::new();
        for (src, dst, path) in &self.relations[&relation] {
            if keep(src, dst) {
                found.insert(RelationRow { src: *src, dst: *dst, path: path.clone().map(Into::into) });
            }
        }
        ListedRows::Relations(found)
    }

    fn direct(&self, id: Sha1Git) -> BTreeSet<(Sha1Git, Vec<u8>)> {
        let rows = self.relations[&Relation::ContentInRevision].iter().filter(|(src, _, _)| *src == id);
        rows.map(|(_, revision, path)| (*revision, path.clone().unwrap_or_default())).collect()
    }

    fn through_directories(&self, id: Sha1Git) -> BTreeSet<(Sha1Git, Vec<u8>)> {
        let mut found = BTreeSet::new();
        for (content, below, suffix) in &self.relations[&Relation::ContentInDirectory] {
            for (directory, revision, prefix) in &self.relations[&Relation::DirectoryInRevision] {
                if *content != id || below != directory {
                    continue;
                }
                let path = match (prefix, suffix) {
                    (Some(prefix), Some(suffix)) if prefix.is_empty() || prefix == b"." => suffix.clone(),
                    (Some(prefix), Some(suffix)) => [prefix, &b"/"[..], suffix].concat(),
                    _ => Vec::new(),
                };
                found.insert((*revision, path));
            }
        }
        found
    }

    fn sorted(&self, entries: BTreeSet<(Sha1Git, Vec<u8>)>, content: Sha1Git) -> Vec<Occurrence> {
        let mut found = Vec::new();
        for (revision, path) in entries {
            let data = self.revisions[&revision];
            let origin = data.origin.map(|origin| self.origins[&origin].clone());
            found.push(Occurrence { content, revision, date: data.date, origin, path: path.into() });
        }
        found.sort_by_key(|o| {
            let url = o.origin.clone();
            (o.date.is_none(), o.date, o.revision, url.is_none(), url, o.path.clone())
        });
        found
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (table, entity) in [
            ("content", Entity::Content),
            ("directory", Entity::Directory),
            ("revision", Entity::Revision),
            ("origin", Entity::Origin),
        ] {
            counts.insert(table.to_owned(), self.ids(entity).len() as u64);
        }
        counts.insert("location".to_owned(), self.locations.len() as u64);
        for (table, relation) in [
            ("content_in_revision", Relation::ContentInRevision),
            ("content_in_directory", Relation::ContentInDirectory),
            ("directory_in_revision", Relation::DirectoryInRevision),
            ("revision_in_origin", Relation::RevisionInOrigin),
            ("revision_before_revision", Relation::RevisionBeforeRevision),
        ] {
            counts.insert(table.to_owned(), self.relations[&relation].len() as u64);
        }
        counts
    }
}

fn has_path(relation: Relation) -> bool {
    !matches!(relation, Relation::RevisionInOrigin | Relation::RevisionBeforeRevision)
}

fn earliest(dates: &mut BTreeMap<Sha1Git, Option<Date>>, (id, date): (Sha1Git, Option<Date>)) {
    let known = dates.entry(id).or_default();
    *known = [*known, date].into_iter().flatten().min();
}

fn dated(dates: &BTreeMap<Sha1Git, Option<Date>>, ids: &[Sha1Git]) -> BTreeMap<Sha1Git, Date> {
    ids.iter().filter_map(|id| Some((*id, (*dates.get(id)?)?))).collect()
}
