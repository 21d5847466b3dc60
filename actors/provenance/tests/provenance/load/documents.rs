//! What a store in MongoDB holds, by its raw documents: as `dump` does it for tables.

use std::{collections::BTreeMap, str::FromStr};

use mongodb::{
    Client,
    bson::{Bson, Document, doc, oid::ObjectId},
};
use orchestrator_provenance::method::Relation;

use super::expected::{Held, Id};

/// Asks the server, on a thread of its own: the test's is a runtime already.
pub(crate) fn dump(uri: &str, database: &str) -> Held {
    std::thread::scope(|scope| {
        let read = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(read(uri, database))
        };
        scope.spawn(read).join().unwrap()
    })
}

async fn read(uri: &str, database: &str) -> Held {
    let database = Client::with_uri_str(uri).await.unwrap().database(database);
    let mut collections = BTreeMap::new();
    for name in ["content", "directory", "revision", "origin"] {
        let mut cursor = database.collection::<Document>(name).find(doc! {}).await.unwrap();
        let mut all = Vec::new();
        while cursor.advance().await.unwrap() {
            all.push(Document::try_from(cursor.current()).unwrap());
        }
        collections.insert(name, all);
    }
    let ids: BTreeMap<ObjectId, Id> =
        collections.values().flatten().map(|one| (one.get_object_id("_id").unwrap(), sha1(one))).collect();
    let mut held = Held::default();
    for one in &collections["content"] {
        assert!(held.contents.insert(sha1(one), micros(one)).is_none(), "twins");
    }
    for one in &collections["directory"] {
        assert!(held.directories.insert(sha1(one), micros(one)).is_none(), "twins");
    }
    for one in &collections["revision"] {
        let preferred = one.get("preferred").filter(|origin| **origin != Bson::Null).map(id);
        assert!(held.revisions.insert(sha1(one), (micros(one), preferred)).is_none(), "twins");
    }
    for one in &collections["origin"] {
        let url = one.get_str("url").unwrap().to_owned();
        assert!(held.origins.insert(sha1(one), url).is_none(), "twins");
    }
    for (relation, source, field) in [
        (Relation::ContentInRevision, "content", "revision"),
        (Relation::ContentInDirectory, "content", "directory"),
        (Relation::DirectoryInRevision, "directory", "revision"),
        (Relation::RevisionInOrigin, "revision", "origin"),
        (Relation::RevisionBeforeRevision, "revision", "revision"),
    ] {
        let table = held.relations.entry(relation).or_default();
        for one in &collections[source] {
            let mut add = |row| assert!(table.insert(row), "a row is stored twice");
            match one.get(field).unwrap() {
                Bson::Document(paths) => {
                    for (dst, paths) in paths {
                        let dst = ids[&ObjectId::from_str(dst).unwrap()];
                        let paths = paths.as_array().unwrap().iter();
                        paths.for_each(|path| add((sha1(one), dst, Some(bytes(path)))));
                    }
                }
                Bson::Array(found) => {
                    let keys = found.iter().map(|dst| dst.as_object_id().unwrap());
                    keys.for_each(|dst| add((sha1(one), ids[&dst], None)));
                }
                other => panic!("{field} is {other}"),
            }
        }
    }
    held.register_paths();
    held
}

fn bytes(value: &Bson) -> Vec<u8> {
    match value {
        Bson::Binary(binary) => binary.bytes.clone(),
        other => panic!("{other} in place of bytes"),
    }
}

fn id(value: &Bson) -> Id {
    bytes(value).try_into().unwrap()
}

fn sha1(document: &Document) -> Id {
    id(document.get("sha1").unwrap())
}

/// As a reader of the original rounds it: whole seconds apart, which a product would cost digits.
fn micros(document: &Document) -> Option<i64> {
    let ts = document.get("ts").unwrap().as_f64()?;
    Some(ts.floor() as i64 * 1_000_000 + (ts.fract().rem_euclid(1.0) * 1e6).round() as i64)
}
