//! MongoDB client with the real driver, against a stand-in for the server (`tests/peers/mongo_server.py`).

mod documents;
mod leases;
mod pages;

use mongodb::{
    Client, Collection,
    bson::{Bson, Document, doc, oid::ObjectId},
};
use orchestrator_harness::MongoDb;
use orchestrator_producer_rules::id::Id;

use crate::edge::mongodb::{Collections, MongoStore};

fn id(number: u64) -> Id {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Id(bytes)
}

fn oid(number: u64) -> ObjectId {
    ObjectId::from_bytes(id(number).0)
}

fn collections() -> Collections {
    let name = |name: &str| name.to_owned();
    Collections { database: name("tanglenomicon"), stencils: name("stencils"), tangles: name("tangles") }
}

async fn open(server: &MongoDb, strict: bool) -> MongoStore {
    MongoStore::open(&server.uri(), collections(), strict, None).await.unwrap()
}

/// Collection over a client of its own.
async fn collection(server: &MongoDb, name: &str) -> Collection<Document> {
    Client::with_uri_str(server.uri()).await.unwrap().database("tanglenomicon").collection(name)
}

async fn insert(server: &MongoDb, name: &str, documents: Vec<Document>) {
    collection(server, name).await.insert_many(documents).await.unwrap();
}

async fn document(server: &MongoDb, id: impl Into<Bson>) -> Document {
    let stencils = collection(server, "stencils").await;
    stencils.find_one(doc! { "_id": id.into() }).await.unwrap().expect("the document")
}

fn config(completed: i32, max: i32) -> Document {
    doc! { "_id": "config", "current_completed_tcn": completed, "max_tcn": max }
}

fn stencil(number: u64, root: i32, scion: i32, state: i32) -> Document {
    doc! { "_id": oid(number), "TCN": root + scion, "rootstock_tcn": root, "scion_tcn": scion, "state": state }
}

fn tangle(number: u64, tcn: i64, is_good: bool) -> Document {
    doc! { "_id": oid(number), "notation": format!("[{number}]"), "TCN": tcn, "is_good": is_good, "positivity": "positive" }
}

/// An integer of either size.
fn number(document: &Document, field: &str) -> Option<i64> {
    match document.get(field)? {
        Bson::Int32(number) => Some((*number).into()),
        Bson::Int64(number) => Some(*number),
        _ => None,
    }
}
