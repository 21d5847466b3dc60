//! Writes of the rows of one method, merged with stored documents (CONTRACT PO01 to PO05, PS04).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mongodb::bson::{Bson, Document, doc, oid::ObjectId};

use super::{
    layout::{binary, field, new_fields, seconds},
    lookup::keys,
    session::Session,
};
use crate::{
    method::{Entity, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::{OmittedRows, StoreError},
};

/// Maximum size of new rows in one update of a document, in bytes, except for one larger row.
const CHUNK_BYTES: usize = 1 << 20;

/// Writes `rows` and adds the left-out rows to `omitted`.
pub(super) async fn group(
    session: &Session,
    rows: &Rows,
    omitted: &mut OmittedRows,
) -> Result<(), StoreError> {
    match rows {
        Rows::Contents(rows) => dates(session, Entity::Content, rows).await,
        Rows::Directories(rows) => dates(session, Entity::Directory, rows).await,
        Rows::Revisions(rows) => revisions(session, rows, omitted).await,
        Rows::Origins(rows) => {
            let entries = rows.iter().map(|(id, url)| upsert(*id, doc! { "url": url.as_str() })).collect();
            session.insert(Entity::Origin, entries).await.map(drop)
        }
        // There is no collection of locations: paths are stored with relations.
        Rows::Locations(_) => Ok(()),
        Rows::Relations(relation, rows) => relations(session, *relation, rows, omitted).await,
    }
}

async fn dates(
    session: &Session,
    entity: Entity,
    rows: &[(Sha1Git, Option<Date>)],
) -> Result<(), StoreError> {
    let entries = rows.iter().map(|(id, date)| upsert(*id, new_fields(entity, *date))).collect();
    let inserted = session.insert(entity, entries).await?;
    let old = rows.iter().enumerate().filter(|(at, _)| !inserted.contains(at));
    let changes = old.filter_map(|(_, (id, date))| Some(set_earlier_date(*id, (*date)?))).collect();
    session.change(entity, changes).await
}

async fn revisions(
    session: &Session,
    rows: &[(Sha1Git, RevisionData)],
    omitted: &mut OmittedRows,
) -> Result<(), StoreError> {
    let named: BTreeSet<Sha1Git> = rows.iter().filter_map(|(_, data)| data.origin).collect();
    let known = keys(session, Entity::Origin, &named).await?;
    let preferred = |data: &RevisionData| data.origin.filter(|origin| known.contains_key(origin));
    let entry = |(id, data): &(Sha1Git, RevisionData)| {
        let mut fields = new_fields(Entity::Revision, data.date);
        fields.insert("preferred", preferred(data).map_or(Bson::Null, |origin| binary(&origin.0)));
        upsert(*id, fields)
    };
    let inserted = session.insert(Entity::Revision, rows.iter().map(entry).collect()).await?;
    let mut changes = Vec::new();
    for (at, (id, data)) in rows.iter().enumerate() {
        let origin = preferred(data);
        omitted.origin_unknown += u64::from(data.origin.is_some() && origin.is_none());
        if inserted.contains(&at) {
            continue;
        }
        changes.extend(data.date.map(|date| set_earlier_date(*id, date)));
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
    omitted: &mut OmittedRows,
) -> Result<(), StoreError> {
    let sources = keys(session, relation.source(), &rows.iter().map(|row| row.src).collect()).await?;
    let destinations =
        keys(session, relation.destination(), &rows.iter().map(|row| row.dst).collect()).await?;
    let mut by_source: BTreeMap<ObjectId, BTreeSet<(ObjectId, &[u8])>> = BTreeMap::new();
    for row in rows {
        // Relations of revisions have no paths; one in a row is ignored.
        let path = if relation.has_path() { row.path.as_deref() } else { Some(&[][..]) };
        match (sources.get(&row.src), destinations.get(&row.dst), path) {
            (Some(src), Some(dst), Some(path)) => {
                by_source.entry(*src).or_default().insert((*dst, path));
            }
            _ => omitted.unregistered += 1,
        }
    }
    let changes = by_source.into_iter().flat_map(|(src, found)| {
        chunks(found).into_iter().map(move |chunk| {
            doc! { "q": { "_id": src }, "u": { "$addToSet": additions(relation, chunk) } }
        })
    });
    session.change(relation.source(), changes.collect()).await
}

/// Splits a source's new rows into updates of limited size.
fn chunks(rows: BTreeSet<(ObjectId, &[u8])>) -> Vec<Vec<(ObjectId, &[u8])>> {
    let mut chunks: Vec<Vec<_>> = Vec::new();
    let mut bytes = usize::MAX;
    for row in rows {
        // Overhead of a path: its key with the destination's hex digits, types and lengths.
        let more = row.1.len() + 96;
        bytes = bytes.saturating_add(more);
        if bytes > CHUNK_BYTES {
            chunks.push(Vec::new());
            bytes = more;
        }
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(row);
        }
    }
    chunks
}

/// Fields of `$addToSet`.
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

/// Sets a missing or later date to `date`. `$min` would keep null, which is less than any date. The server
/// evaluates the filter at the change, so of two writers the earlier date wins.
fn set_earlier_date(id: Sha1Git, date: Date) -> Document {
    let ts = seconds(date);
    doc! {
        "q": { "sha1": binary(&id.0), "$or": [{ "ts": null }, { "ts": { "$gt": ts.clone() } }] },
        "u": { "$set": { "ts": ts } },
    }
}
