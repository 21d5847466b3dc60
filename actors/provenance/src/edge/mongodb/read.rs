//! Queries, and the conversion of documents to results (CONTRACT PD01 to PD03).

use std::collections::BTreeMap;

use mongodb::bson::doc;

use super::{
    layout::{binaries, date, identifier, sha1},
    lookup::{IDS_MAX, urls},
    occurrences, pages,
    session::Session,
};
use crate::{
    method::Entity,
    row::{RevisionData, Sha1Git},
    store::{Query, QueryResult, StoreError},
};

pub(super) async fn answer(session: &Session, query: &Query) -> Result<QueryResult, StoreError> {
    match query {
        Query::Contents(ids) => dates(session, Entity::Content, ids).await,
        Query::Directories(ids) => dates(session, Entity::Directory, ids).await,
        Query::Revisions(ids) => revisions(session, ids).await,
        Query::Origins(ids) => urls(session, ids).await.map(QueryResult::Urls),
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
        Query::Page { listing, after, limit } => {
            pages::page(session, *listing, after.as_ref(), *limit).await.map(QueryResult::Page)
        }
    }
}

async fn dates(session: &Session, entity: Entity, ids: &[Sha1Git]) -> Result<QueryResult, StoreError> {
    let mut dates = BTreeMap::new();
    for ids in ids.chunks(IDS_MAX) {
        let filter = doc! { "sha1": { "$in": binaries(ids) }, "ts": { "$ne": null } };
        session
            .find(entity, filter, doc! { "_id": 0, "sha1": 1, "ts": 1 }, &mut |found| {
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
            .find(
                Entity::Revision,
                filter,
                doc! { "_id": 0, "sha1": 1, "ts": 1, "preferred": 1 },
                &mut |found| {
                    let data = RevisionData { date: date(found)?, origin: identifier(found, "preferred")? };
                    revisions.insert(sha1(found)?, data);
                    Ok(())
                },
            )
            .await?;
    }
    Ok(QueryResult::Revisions(revisions))
}
