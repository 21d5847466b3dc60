//! MongoDB store: the conformance suite and the properties of documents. The server is a stand-in
//! that speaks MongoDB's protocol (`tests/peers/mongo_server.py`); the driver is the real one.

mod documents;
mod limits;
mod writers;

use std::cell::Cell;

use mongodb::{
    Client,
    bson::{Document, doc},
};
use orchestrator_harness::MongoDb;

use crate::{
    edge::mongodb::MongoStore,
    tests::conformance::{self, Flavor},
};

async fn connect(server: &MongoDb, name: &str) -> MongoStore {
    MongoStore::connect(&server.uri(), name).await.unwrap()
}

/// Collection over another client.
async fn collection(server: &MongoDb, database: &str, name: &str) -> mongodb::Collection<Document> {
    Client::with_uri_str(server.uri()).await.unwrap().database(database).collection(name)
}

/// Documents ordered by identifier.
async fn documents_of(server: &MongoDb, database: &str, name: &str) -> Vec<Document> {
    let mut cursor = collection(server, database, name).await.find(doc! {}).await.unwrap();
    let mut all = Vec::new();
    while cursor.advance().await.unwrap() {
        all.push(Document::try_from(cursor.current()).unwrap());
    }
    all.sort_by_key(|document| document.get_binary_generic("sha1").unwrap().clone());
    all
}

#[tokio::test]
async fn conforms() {
    let server = MongoDb::start();
    let opened = Cell::new(0);
    let lacks = Flavor {
        locations: false,
        exact_dates: false,
        counts_relations: false,
        urls_unique: false,
        sequences_max: 8,
        many: 12_000,
        ..Flavor::FULL
    };
    conformance::run(lacks, async || {
        opened.set(opened.get() + 1);
        // The stand-in answers one request at a time, and monitors wait for it, too.
        let uri = format!("{}/?connectTimeoutMS=30000", server.uri());
        MongoStore::connect(&uri, &format!("conforms-{}", opened.get())).await.unwrap()
    })
    .await;
}
