//! Occurrences of a content, joined in this process.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use mongodb::bson::{RawDocument, doc, oid::ObjectId};

use super::{
    layout::{binary, date, each_row, field, identifier, key, sha1},
    lookup::{by_key, urls},
    session::Session,
};
use crate::{
    method::{Entity, Relation},
    row::{RevisionData, Sha1Git},
    store::{Occurrence, StoreError},
};

/// `_id`s of revisions or directories, with paths in them.
type EntryPaths = BTreeSet<(ObjectId, Bytes)>;

/// First occurrence, as in [`Query::FindFirst`](crate::store::Query).
pub(super) async fn first(session: &Session, content: Sha1Git) -> Result<Vec<Occurrence>, StoreError> {
    let (direct, _) = entries(session, content).await?;
    sorted(session, content, direct, Some(1)).await
}

/// All occurrences, as in [`Query::FindAll`](crate::store::Query).
pub(super) async fn all(
    session: &Session,
    content: Sha1Git,
    limit: Option<u64>,
) -> Result<Vec<Occurrence>, StoreError> {
    let (mut found, inside) = entries(session, content).await?;
    let mut paths: HashMap<ObjectId, Vec<&Bytes>> = HashMap::new();
    for (directory, path) in &inside {
        paths.entry(*directory).or_default().push(path);
    }
    let fields = doc! { field(Relation::DirectoryInRevision): 1 };
    by_key(session, Entity::Directory, paths.keys().copied(), fields, &mut |document| {
        let suffixes = &paths[&key(document)?];
        let mut above = EntryPaths::new();
        take(document, Relation::DirectoryInRevision, &mut above)?;
        for (revision, prefix) in above {
            found.extend(suffixes.iter().map(|suffix| (revision, joined(&prefix, suffix))));
        }
        Ok(())
    })
    .await?;
    sorted(session, content, found, limit).await
}

fn joined(prefix: &Bytes, suffix: &Bytes) -> Bytes {
    match &prefix[..] {
        b"" | b"." => suffix.clone(),
        prefix => [prefix, b"/", suffix].concat().into(),
    }
}

/// Revisions and directories that contain `content`.
async fn entries(session: &Session, content: Sha1Git) -> Result<(EntryPaths, EntryPaths), StoreError> {
    let (mut revisions, mut directories) = (EntryPaths::new(), EntryPaths::new());
    let fields = doc! { field(Relation::ContentInRevision): 1, field(Relation::ContentInDirectory): 1 };
    session
        .find(Entity::Content, doc! { "sha1": binary(&content.0) }, fields, &mut |document| {
            take(document, Relation::ContentInRevision, &mut revisions)?;
            take(document, Relation::ContentInDirectory, &mut directories)
        })
        .await?;
    Ok((revisions, directories))
}

fn take(document: &RawDocument, relation: Relation, entries: &mut EntryPaths) -> Result<(), StoreError> {
    each_row(document, relation, &mut |id, path| entries.extend(path.map(|path| (id, path))))
}

async fn sorted(
    session: &Session,
    content: Sha1Git,
    entries: EntryPaths,
    limit: Option<u64>,
) -> Result<Vec<Occurrence>, StoreError> {
    let mut revisions: HashMap<ObjectId, (Sha1Git, RevisionData)> = HashMap::new();
    let fields = doc! { "sha1": 1, "ts": 1, "preferred": 1 };
    by_key(session, Entity::Revision, entries.iter().map(|entry| entry.0), fields, &mut |found| {
        let data = RevisionData { date: date(found)?, origin: identifier(found, "preferred")? };
        revisions.insert(key(found)?, (sha1(found)?, data));
        Ok(())
    })
    .await?;
    let origins: BTreeSet<Sha1Git> = revisions.values().filter_map(|(_, data)| data.origin).collect();
    let urls = urls(session, &origins.into_iter().collect::<Vec<_>>()).await?;
    let mut found: Vec<Occurrence> = entries
        .into_iter()
        .filter_map(|(revision, path)| {
            let (revision, data) = *revisions.get(&revision)?;
            let origin = data.origin.and_then(|origin| urls.get(&origin).cloned());
            Some(Occurrence { content, revision, date: data.date, origin, path })
        })
        .collect();
    found.sort_by(|a, b| order(a).cmp(&order(b)));
    found.truncate(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)));
    Ok(found)
}

/// Unknown dates and urls come last.
fn order(found: &Occurrence) -> impl Ord + '_ {
    let Occurrence { revision, date, origin, path, .. } = found;
    (date.is_none(), *date, *revision, origin.is_none(), origin.as_deref(), &path[..])
}
