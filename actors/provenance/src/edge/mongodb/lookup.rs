//! Lookups of documents by identifier and by `_id`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mongodb::bson::{Bson, Document, RawDocument, doc, oid::ObjectId};

use super::{
    layout::{binaries, key, sha1},
    session::Session,
};
use crate::{method::Entity, row::Sha1Git, store::StoreError};

/// Maximum number of identifiers in one query, which is a document of at most 16 MiB.
pub(super) const IDS_MAX: usize = 10_000;

/// `_id` of each of `ids` that is stored.
pub(super) async fn keys(
    session: &Session,
    entity: Entity,
    ids: &BTreeSet<Sha1Git>,
) -> Result<HashMap<Sha1Git, ObjectId>, StoreError> {
    let mut found = HashMap::with_capacity(ids.len());
    let ids: Vec<&Sha1Git> = ids.iter().collect();
    for ids in ids.chunks(IDS_MAX) {
        let filter = doc! { "sha1": { "$in": binaries(ids.iter().copied()) } };
        session
            .find(entity, filter, doc! { "sha1": 1 }, &mut |document| {
                found.insert(sha1(document)?, key(document)?);
                Ok(())
            })
            .await?;
    }
    Ok(found)
}

/// Calls `each` with `fields` of the documents of `entity` with these `_id`s.
pub(super) async fn by_key(
    session: &Session,
    entity: Entity,
    keys: impl IntoIterator<Item = ObjectId>,
    fields: Document,
    each: &mut dyn FnMut(&RawDocument) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let keys: Vec<Bson> = keys.into_iter().collect::<BTreeSet<_>>().into_iter().map(Bson::ObjectId).collect();
    for keys in keys.chunks(IDS_MAX) {
        let filter = doc! { "_id": { "$in": keys } };
        session.find(entity, filter, fields.clone(), each).await?;
    }
    Ok(())
}

pub(super) async fn urls(
    session: &Session,
    ids: &[Sha1Git],
) -> Result<BTreeMap<Sha1Git, String>, StoreError> {
    let mut urls = BTreeMap::new();
    for ids in ids.chunks(IDS_MAX) {
        let filter = doc! { "sha1": { "$in": binaries(ids) } };
        session
            .find(Entity::Origin, filter, doc! { "_id": 0, "sha1": 1, "url": 1 }, &mut |found| {
                if let Ok(url) = found.get_str("url") {
                    urls.insert(sha1(found)?, url.to_owned());
                }
                Ok(())
            })
            .await?;
    }
    Ok(urls)
}
