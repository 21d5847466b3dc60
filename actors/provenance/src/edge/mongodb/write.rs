//! Writing the rows of one method into documents that hold others (CONTRACT PO01 to PO05, PS04).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mongodb::bson::{Bson, Document, doc, oid::ObjectId};

use super::{
    layout::{binary, field, fresh, seconds},
    lookup::keys,
    session::Session,
};
use crate::{
    method::{Entity, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::{StoreError, Written},
};

/// Bytes of new rows that share an update of one document, beside a row that is larger.
const SHARE_BYTES: usize = 1 << 20;

/// Writes `rows` and adds what is not stored to `written`.
pub(super) async fn group(session: &Session, rows: &Rows, written: &mut Written) -> Result<(), StoreError> {
    match rows {
        Rows::Contents(rows) => dates(session, Entity::Content, rows).await,
        Rows::Directories(rows) => dates(session, Entity::Directory, rows).await,
        Rows::Revisions(rows) => revisions(session, rows, written).await,
        Rows::Origins(rows) => {
            let entries = rows.iter().map(|(id, url)| upsert(*id, doc! { "url": url.as_str() })).collect();
            session.insert(Entity::Origin, entries).await.map(drop)
        }
        // There is no collection of them: whatever a relation has is its path.
        Rows::Locations(_) => Ok(()),
        Rows::Relations(relation, rows) => relations(session, *relation, rows, written).await,
    }
}

async fn dates(
    session: &Session,
    entity: Entity,
    rows: &[(Sha1Git, Option<Date>)],
) -> Result<(), StoreError> {
    let entries = rows.iter().map(|(id, date)| upsert(*id, fresh(entity, *date))).collect();
    let inserted = session.insert(entity, entries).await?;
    let old = rows.iter().enumerate().filter(|(at, _)| !inserted.contains(at));
    let changes = old.filter_map(|(_, (id, date))| Some(earlier(*id, (*date)?))).collect();
    session.change(entity, changes).await
}

async fn revisions(
    session: &Session,
    rows: &[(Sha1Git, RevisionData)],
    written: &mut Written,
) -> Result<(), StoreError> {
    let named: BTreeSet<Sha1Git> = rows.iter().filter_map(|(_, data)| data.origin).collect();
    let known = keys(session, Entity::Origin, &named).await?;
    let preferred = |data: &RevisionData| data.origin.filter(|origin| known.contains_key(origin));
    let entry = |(id, data): &(Sha1Git, RevisionData)| {
        let mut fields = fresh(Entity::Revision, data.date);
        fields.insert("preferred", preferred(data).map_or(Bson::Null, |origin| binary(&origin.0)));
        upsert(*id, fields)
    };
    let inserted = session.insert(Entity::Revision, rows.iter().map(entry).collect()).await?;
    let mut changes = Vec::new();
    for (at, (id, data)) in rows.iter().enumerate() {
        let origin = preferred(data);
        written.origin_unknown += u64::from(data.origin.is_some() && origin.is_none());
        if inserted.contains(&at) {
            continue;
        }
        changes.extend(data.date.map(|date| earlier(*id, date)));
        changes.extend(origin.map(|origin| {
            doc! { "q": { "sha1": binary(&id.0) }, "u": { "$set": { "preferred": binary(&origin.0) } } }
        }));
    }
    session.change(Entity::Revision, changes).await
}

async fn relations(
    session: &Session,
    relation: Relation,
    rows: &[RelationRow],
    written: &mut Written,
) -> Result<(), StoreError> {
    let sources = keys(session, relation.source(), &rows.iter().map(|row| row.src).collect()).await?;
    let destinations =
        keys(session, relation.destination(), &rows.iter().map(|row| row.dst).collect()).await?;
    let mut by_source: BTreeMap<ObjectId, BTreeSet<(ObjectId, &[u8])>> = BTreeMap::new();
    for row in rows {
        // Relations of revisions have no paths, whatever their rows say.
        let path = if relation.has_path() { row.path.as_deref() } else { Some(&[][..]) };
        match (sources.get(&row.src), destinations.get(&row.dst), path) {
            (Some(src), Some(dst), Some(path)) => {
                by_source.entry(*src).or_default().insert((*dst, path));
            }
            _ => written.unregistered += 1,
        }
    }
    let changes = by_source.into_iter().flat_map(|(src, found)| {
        shares(found).into_iter().map(move |share| {
            doc! { "q": { "_id": src }, "u": { "$addToSet": additions(relation, share) } }
        })
    });
    session.change(relation.source(), changes.collect()).await
}

/// A source's new rows, in shares that are not too large.
fn shares(rows: BTreeSet<(ObjectId, &[u8])>) -> Vec<Vec<(ObjectId, &[u8])>> {
    let mut shares: Vec<Vec<_>> = Vec::new();
    let mut bytes = usize::MAX;
    for row in rows {
        // Around a path: its key with the destination's hex digits, types and lengths.
        let more = row.1.len() + 96;
        bytes = bytes.saturating_add(more);
        if bytes > SHARE_BYTES {
            shares.push(Vec::new());
            bytes = more;
        }
        if let Some(share) = shares.last_mut() {
            share.push(row);
        }
    }
    shares
}

/// What `$addToSet` adds to which fields.
fn additions(relation: Relation, rows: Vec<(ObjectId, &[u8])>) -> Document {
    let name = field(relation);
    let mut fields: HashMap<String, Vec<Bson>> = HashMap::new();
    for (dst, path) in rows {
        if relation.has_path() {
            fields.entry(format!("{name}.{}", dst.to_hex())).or_default().push(binary(path));
        } else {
            fields.entry(name.to_owned()).or_default().push(Bson::ObjectId(dst));
        }
    }
    fields.into_iter().map(|(name, values)| (name, Bson::Document(doc! { "$each": values }))).collect()
}

/// Inserts a document with `fields` if `id` has none.
fn upsert(id: Sha1Git, fields: Document) -> Document {
    doc! { "q": { "sha1": binary(&id.0) }, "u": { "$setOnInsert": fields }, "upsert": true }
}

/// Gives the document of `id` a date that is earlier than its own, or its first. `$min` alone would not: to it, null is less
/// than any date. The filter is looked at in the moment of the change, so of two writers the earlier date wins.
fn earlier(id: Sha1Git, date: Date) -> Document {
    let ts = seconds(date);
    doc! {
        "q": { "sha1": binary(&id.0), "$or": [{ "ts": null }, { "ts": { "$gt": ts.clone() } }] },
        "u": { "$set": { "ts": ts } },
    }
}
