//! Pages of listings, in the order of `_id`, which every collection has an index on.
//!
//! A page ends within a document if it has more rows than are left. The next page reads that
//! document again and skips its rows up to the end of the page before.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use mongodb::bson::{Bson, Document, RawDocument, doc, oid::ObjectId};

use super::{
    layout::{binary, each_row, field, key, relations_of, sha1},
    lookup::{by_key, keys},
    session::Session,
};
use crate::{
    listing::{End, Listing, Position},
    method::{Entity, Relation},
    row::{RelationRow, Sha1Git},
    store::{ListedRows, Page, StoreError},
};

/// Paths of a page may exceed this size by those of one row; MongoDB's paths have no limit of their
/// own.
const PATHS_MAX: usize = 1 << 20;
/// Entities whose documents have paths, in the order of pages.
const WITH_PATHS: [Entity; 2] = [Entity::Content, Entity::Directory];
/// Length of an `_id`, in bytes.
const KEY: usize = 12;

pub(super) async fn page(
    session: &Session,
    listing: Listing,
    after: Option<&Position>,
    limit: usize,
) -> Result<Page, StoreError> {
    match listing {
        Listing::Entities(entity) => entities(session, entity, after, limit).await,
        Listing::Locations => locations(session, after, limit).await,
        Listing::Relation(relation, end) => relations(session, relation, end, after, limit).await,
    }
}

async fn entities(
    session: &Session,
    entity: Entity,
    after: Option<&Position>,
    limit: usize,
) -> Result<Page, StoreError> {
    let filter = match after {
        Some(after) => doc! { "_id": { "$gt": id(&after.0)? } },
        None => doc! {},
    };
    let (mut ids, mut last) = (BTreeSet::new(), None);
    session
        .find_in_order(entity, filter, doc! { "sha1": 1 }, &mut |found| {
            ids.insert(sha1(found)?);
            last = Some(Position(Bytes::copy_from_slice(&key(found)?.bytes())));
            Ok(ids.len() < limit)
        })
        .await?;
    let next = last.filter(|_| ids.len() >= limit);
    Ok(Page { rows: ListedRows::Ids(ids), next })
}

/// Rows of a page while it is read.
struct PageRows<R> {
    rows: BTreeSet<R>,
    /// Size of the paths, in bytes.
    size: usize,
    limit: usize,
    /// End of the page, once it is full.
    next: Option<Position>,
}

impl<R: Ord> PageRows<R> {
    fn new(limit: usize) -> Self {
        Self { rows: BTreeSet::new(), size: 0, limit, next: None }
    }

    /// Adds the rows of one document, in order; returns false if the page is full.
    fn add(&mut self, found: impl IntoIterator<Item = (R, usize, Position)>) -> bool {
        for (row, size, end) in found {
            self.rows.insert(row);
            self.size += size;
            if self.rows.len() >= self.limit || self.size >= PATHS_MAX {
                self.next = Some(end);
                return false;
            }
        }
        true
    }
}

/// Each path once in this page: another page may have it again.
async fn locations(session: &Session, after: Option<&Position>, limit: usize) -> Result<Page, StoreError> {
    let mut page = PageRows::<Bytes>::new(limit);
    let (first, after) = match after.and_then(|after| Some((after, after.0.first()?))) {
        Some((after, first)) => (usize::from(*first), Some(after.0.slice(1..))),
        None => (0, None),
    };
    for (index, entity) in WITH_PATHS.into_iter().enumerate().skip(first) {
        let begin = after.clone().filter(|_| index == first);
        let filter = from_document(begin.as_deref())?;
        let mut fields = doc! { "_id": 1 };
        fields.extend(relations_of(entity).map(|relation| (field(relation).to_owned(), Bson::from(1))));
        session
            .find_in_order(entity, filter, fields, &mut |found| {
                let document = key(found)?.bytes();
                let done = begin.as_ref().and_then(|begin| begin.strip_prefix(&document[..]));
                let mut paths = BTreeSet::new();
                for relation in relations_of(entity) {
                    each_row(found, relation, &mut |_, path| {
                        let path = path.filter(|path| done.is_none_or(|done| &path[..] > done));
                        paths.extend(path);
                    })?;
                }
                let end = |path: &Bytes| Position([&[index as u8], &document[..], path].concat().into());
                Ok(page.add(paths.into_iter().map(|path| (path.clone(), path.len(), end(&path)))))
            })
            .await?;
        if page.next.is_some() {
            break;
        }
    }
    Ok(Page { rows: ListedRows::Paths(page.rows), next: page.next })
}

async fn relations(
    session: &Session,
    relation: Relation,
    end: Option<End>,
    after: Option<&Position>,
    limit: usize,
) -> Result<Page, StoreError> {
    let name = field(relation);
    let mut filter = from_document(after.map(|after| &after.0[..]))?;
    let mut fields = doc! { "sha1": 1, name: 1 };
    let mut wanted = None;
    match end {
        None => {}
        Some(End::Source(id)) => drop(filter.insert("sha1", binary(&id.0))),
        Some(End::Destination(id)) => {
            let found = keys(session, relation.destination(), &BTreeSet::from([id])).await?;
            let Some(key) = found.get(&id).copied() else {
                return Ok(Page { rows: ListedRows::Relations(BTreeSet::new()), next: None });
            };
            if relation.has_path() {
                let name = format!("{name}.{}", key.to_hex());
                filter.insert(&name, doc! { "$exists": true });
                fields = doc! { "sha1": 1, name: 1 };
            } else {
                filter.insert(name, key);
            }
            wanted = Some(key);
        }
    }
    let mut page = PageRows::new(limit);
    session
        .find_in_order(relation.source(), filter, fields, &mut |found| {
            let rows = document_rows(found, relation, wanted, after)?;
            Ok(page.add(rows))
        })
        .await?;
    Ok(Page { rows: resolved(session, relation, page.rows).await?, next: page.next })
}

/// Source, `_id` of the destination, path.
type KeyedRow = (Sha1Git, ObjectId, Option<Bytes>);

/// Rows after the end of the page before, each with its size and position.
fn document_rows(
    found: &RawDocument,
    relation: Relation,
    wanted: Option<ObjectId>,
    after: Option<&Position>,
) -> Result<Vec<(KeyedRow, usize, Position)>, StoreError> {
    let (src, document) = (sha1(found)?, key(found)?.bytes());
    let done = after.and_then(|after| after.0.strip_prefix(&document[..]));
    let mut rows = BTreeSet::new();
    each_row(found, relation, &mut |dst, path| {
        let end = [&dst.bytes()[..], path.as_deref().unwrap_or_default()].concat();
        if wanted.is_none_or(|wanted| wanted == dst) && done.is_none_or(|done| &end[..] > done) {
            rows.insert((end, dst, path));
        }
    })?;
    let row = |(end, dst, path): (Vec<u8>, ObjectId, Option<Bytes>)| {
        let size = path.as_ref().map_or(0, Bytes::len);
        ((src, dst, path), size, Position([&document[..], &end].concat().into()))
    };
    Ok(rows.into_iter().map(row).collect())
}

async fn resolved(
    session: &Session,
    relation: Relation,
    rows: BTreeSet<KeyedRow>,
) -> Result<ListedRows, StoreError> {
    let mut ids: HashMap<ObjectId, Sha1Git> = HashMap::new();
    let keys = rows.iter().map(|(_, dst, _)| *dst);
    by_key(session, relation.destination(), keys, doc! { "sha1": 1 }, &mut |found| {
        ids.insert(key(found)?, sha1(found)?);
        Ok(())
    })
    .await?;
    let rows = rows.into_iter();
    let rows = rows.filter_map(|(src, dst, path)| Some(RelationRow { src, dst: *ids.get(&dst)?, path }));
    Ok(ListedRows::Relations(rows.collect()))
}

/// Selects the document of `position` and those after it.
fn from_document(position: Option<&[u8]>) -> Result<Document, StoreError> {
    position.map_or_else(|| Ok(doc! {}), |position| Ok(doc! { "_id": { "$gte": id(position)? } }))
}

/// `_id` at the beginning of a position.
fn id(position: &[u8]) -> Result<ObjectId, StoreError> {
    let bytes: Option<[u8; KEY]> = position.first_chunk().copied();
    bytes.map(ObjectId::from_bytes).ok_or_else(|| StoreError::Refused("the position has no _id".to_owned()))
}
