//! Queries, and the conversion of documents to results (CONTRACT PD01 to PD03).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use mongodb::bson::{Bson, Document, doc, oid::ObjectId};

use super::{
    layout::{binaries, date, each_row, field, identifier, key, relations_of, sha1},
    lookup::{IDS_MAX, by_key, keys, urls},
    occurrences, pages,
    session::Session,
};
use crate::{
    method::{Entity, Relation},
    row::{RelationRow, RevisionData, Sha1Git},
    store::{Query, QueryResult, StoreError},
};

/// Maximum number of destinations in one query for their sources; each is searched in every source.
const DESTINATIONS_MAX: usize = 500;

/// Answers `query`. All locations are paths of relations.
pub(super) async fn answer(session: &Session, query: &Query) -> Result<QueryResult, StoreError> {
    match query {
        Query::Contents(ids) => dates(session, Entity::Content, ids).await,
        Query::Directories(ids) => dates(session, Entity::Directory, ids).await,
        Query::Revisions(ids) => revisions(session, ids).await,
        Query::Origins(ids) => urls(session, ids).await.map(QueryResult::Urls),
        Query::AllEntities(entity) => {
            let mut ids = BTreeSet::new();
            session
                .find(*entity, doc! {}, doc! { "_id": 0, "sha1": 1 }, |found| {
                    ids.insert(sha1(found)?);
                    Ok(())
                })
                .await?;
            Ok(QueryResult::Ids(ids))
        }
        Query::AllLocations => locations(session).await,
        Query::Relations { relation, ids, reverse: false } => {
            let mut rows = Vec::new();
            for ids in ids.chunks(IDS_MAX) {
                let filter = doc! { "sha1": { "$in": binaries(ids) } };
                gather(session, *relation, filter, &doc! { field(*relation): 1 }, &mut rows).await?;
            }
            resolved(session, *relation, rows).await
        }
        Query::Relations { relation, ids, reverse: true } => reverse(session, *relation, ids).await,
        Query::AllRelations(relation) => {
            let mut rows = Vec::new();
            gather(session, *relation, doc! {}, &doc! { field(*relation): 1 }, &mut rows).await?;
            resolved(session, *relation, rows).await
        }
        Query::FindFirst(id) => occurrences::first(session, *id).await.map(QueryResult::Occurrences),
        Query::FindAll { id, limit } => {
            occurrences::all(session, *id, *limit).await.map(QueryResult::Occurrences)
        }
        Query::Counts => {
            // Rows of relations are not documents; counting them would read all documents.
            let mut counts = BTreeMap::new();
            for entity in Entity::ALL {
                counts.insert(entity.value().to_owned(), session.count(entity).await?);
            }
            Ok(QueryResult::Counts(counts))
        }
        Query::Page { listing, after, limit } => pages::page(session, *listing, after.as_ref(), *limit).await,
    }
}

async fn dates(session: &Session, entity: Entity, ids: &[Sha1Git]) -> Result<QueryResult, StoreError> {
    let mut dates = BTreeMap::new();
    for ids in ids.chunks(IDS_MAX) {
        let filter = doc! { "sha1": { "$in": binaries(ids) }, "ts": { "$ne": null } };
        session
            .find(entity, filter, doc! { "_id": 0, "sha1": 1, "ts": 1 }, |found| {
                if let Some(date) = date(found)? {
                    dates.insert(sha1(found)?, date);
                }
                Ok(())
            })
            .await?;
    }
    Ok(QueryResult::Dates(dates))
}

async fn revisions(session: &Session, ids: &[Sha1Git]) -> Result<QueryResult, StoreError> {
    let mut revisions = BTreeMap::new();
    for ids in ids.chunks(IDS_MAX) {
        let filter = doc! { "sha1": { "$in": binaries(ids) }, "$or": [{ "ts": { "$ne": null } }, { "preferred": { "$ne": null } }] };
        session
            .find(Entity::Revision, filter, doc! { "_id": 0, "sha1": 1, "ts": 1, "preferred": 1 }, |found| {
                let data = RevisionData { date: date(found)?, origin: identifier(found, "preferred")? };
                revisions.insert(sha1(found)?, data);
                Ok(())
            })
            .await?;
    }
    Ok(QueryResult::Revisions(revisions))
}

async fn locations(session: &Session) -> Result<QueryResult, StoreError> {
    let mut paths = BTreeSet::new();
    for entity in [Entity::Content, Entity::Directory] {
        let mut fields = doc! { "_id": 0 };
        fields.extend(relations_of(entity).map(|relation| (field(relation).to_owned(), Bson::from(1))));
        session
            .find(entity, doc! {}, fields, |found| {
                relations_of(entity)
                    .try_for_each(|relation| each_row(found, relation, |_, path| paths.extend(path)))
            })
            .await?;
    }
    Ok(QueryResult::Paths(paths))
}

/// Rows of a relation, with destinations by `_id`.
type Rows = Vec<(Sha1Git, ObjectId, Option<Bytes>)>;

/// Adds the rows in the sources that match `filter`, restricted to `fields`.
async fn gather(
    session: &Session,
    relation: Relation,
    filter: Document,
    fields: &Document,
    rows: &mut Rows,
) -> Result<(), StoreError> {
    let mut fields = fields.clone();
    fields.extend(doc! { "_id": 0, "sha1": 1 });
    session
        .find(relation.source(), filter, fields, |found| {
            let src = sha1(found)?;
            each_row(found, relation, |dst, path| rows.push((src, dst, path)))
        })
        .await
}

async fn reverse(session: &Session, relation: Relation, ids: &[Sha1Git]) -> Result<QueryResult, StoreError> {
    let wanted = keys(session, relation.destination(), &ids.iter().copied().collect()).await?;
    let wanted: Vec<ObjectId> = wanted.into_values().collect();
    let name = field(relation);
    let mut rows = Vec::new();
    for some in wanted.chunks(DESTINATIONS_MAX) {
        let (filter, fields) = if relation.has_path() {
            let names = || some.iter().map(|key| format!("{name}.{}", key.to_hex()));
            let any: Vec<Document> = names().map(|name| doc! { name: { "$exists": true } }).collect();
            (doc! { "$or": any }, names().map(|name| (name, Bson::from(1))).collect())
        } else {
            (doc! { name: { "$in": some } }, doc! { name: 1 })
        };
        let begin = rows.len();
        gather(session, relation, filter, &fields, &mut rows).await?;
        // A projection returns whole arrays.
        let fresh = rows.split_off(begin);
        rows.extend(fresh.into_iter().filter(|(_, dst, _)| some.contains(dst)));
    }
    resolved(session, relation, rows).await
}

async fn resolved(session: &Session, relation: Relation, rows: Rows) -> Result<QueryResult, StoreError> {
    let mut ids: HashMap<ObjectId, Sha1Git> = HashMap::new();
    let keys = rows.iter().map(|(_, dst, _)| *dst);
    by_key(session, relation.destination(), keys, doc! { "sha1": 1 }, |found| {
        ids.insert(key(found)?, sha1(found)?);
        Ok(())
    })
    .await?;
    let rows = rows.into_iter();
    let rows = rows.filter_map(|(src, dst, path)| Some(RelationRow { src, dst: *ids.get(&dst)?, path }));
    Ok(QueryResult::Relations(rows.collect()))
}
