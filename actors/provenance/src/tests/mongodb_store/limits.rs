//! Limits of documents, commands and addresses.

use mongodb::bson::doc;
use orchestrator_harness::MongoDb;

use super::{collection, connect, documents_of};
use crate::{
    edge::mongodb::MongoStore,
    listing::Listing,
    method::{Entity, Relation},
    row::Rows,
    store::{ListedRows, Store, StoreError, StoreReader},
    tests::conformance::{bare_revisions, content, listed, origin, revision, with_path},
};

#[tokio::test]
async fn a_document_beyond_the_size_limit_is_refused() {
    let server = MongoDb::start();
    let mut store = connect(&server, "p").await;
    let contents = (0..3).map(|number| (content(number), None)).collect();
    store.write(&[Rows::Contents(contents), bare_revisions(0..1)]).await.unwrap();
    let row = |number: u8, byte: u8, length: usize| {
        let path = vec![byte; length];
        Rows::Relations(Relation::ContentInRevision, vec![with_path(content(number), revision(0), &path)])
    };
    store.write(&[row(0, b'a', 9 << 20)]).await.unwrap();
    // Each fits in a command, two of them do not.
    let both = vec![
        with_path(content(1), revision(0), &vec![b'a'; 9 << 20]),
        with_path(content(2), revision(0), &vec![b'b'; 9 << 20]),
    ];
    store.write(&[Rows::Relations(Relation::ContentInRevision, both)]).await.unwrap();
    let id = documents_of(&server, "p", "content").await[0].get_object_id("_id").unwrap();
    let named = format!("the document with _id {id} of the collection content");
    let refused = store.write(&[row(0, b'b', 17 << 20)]).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Refused(reason) if reason.contains(&named)), "{refused}");
    let refused = store.write(&[row(0, b'b', 9 << 20)]).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Undecided(reason) if reason.contains(&named)), "{refused}");
    store.write(&[row(0, b'c', 10)]).await.unwrap();
    let listing = Listing::Relation(Relation::ContentInRevision, None);
    let rows = listed(listing, async |query| store.read(&query).await.unwrap()).await;
    let ListedRows::Relations(rows) = rows else { panic!("rows were asked for") };
    let lengths: Vec<usize> = rows.iter().map(|row| row.path.as_ref().unwrap().len()).collect();
    assert_eq!(lengths, [9 << 20, 10, 9 << 20, 9 << 20]);
}

#[tokio::test]
async fn many_rows_of_one_source_are_written_in_several_updates() {
    let server = MongoDb::start();
    let mut store = connect(&server, "p").await;
    let paths: Vec<String> = (0..5_000).map(|number| format!("{number:0>1000}")).collect();
    let rows = paths.iter().map(|path| with_path(content(0), revision(0), path.as_bytes())).collect();
    let relations = Rows::Relations(Relation::ContentInRevision, rows);
    let groups = [Rows::Contents(vec![(content(0), None)]), bare_revisions(0..1), relations];
    store.write(&groups).await.unwrap();
    let found = listed(Listing::Locations, async |query| store.read(&query).await.unwrap()).await;
    let ListedRows::Paths(found) = found else { panic!("paths were asked for") };
    assert_eq!(found.len(), paths.len());
}

#[tokio::test]
async fn a_database_with_duplicates_is_used_without_an_index() {
    let server = MongoDb::start();
    let origins = collection(&server, "p", "origin").await;
    let twin = doc! { "sha1": mongodb::bson::Binary { subtype: mongodb::bson::spec::BinarySubtype::Generic, bytes: vec![1; 20] }, "url": "u" };
    origins.insert_many([twin.clone(), twin]).await.unwrap();
    let mut store = connect(&server, "p").await;
    store.write(&[Rows::Contents(vec![(content(1), None)])]).await.unwrap();
    assert_eq!(documents_of(&server, "p", "origin").await.len(), 2);
    let indexes = async |name| collection(&server, "p", name).await.list_index_names().await.unwrap();
    assert!(!indexes("origin").await.contains(&"sha1_1".to_owned()));
    assert!(indexes("content").await.contains(&"sha1_1".to_owned()));
}

/// Rows that violate another program's unique index are refused after several tries. A lost race
/// would end earlier, with the document present.
#[tokio::test]
async fn a_foreign_unique_index_refuses_its_rows() {
    let server = MongoDb::start();
    let origins = collection(&server, "p", "origin").await;
    let index = mongodb::IndexModel::builder()
        .keys(doc! { "url": 1 })
        .options(mongodb::options::IndexOptions::builder().unique(true).build())
        .build();
    origins.create_index(index).await.unwrap();
    let mut store = connect(&server, "p").await;
    let row = |number: u8, url: &str| (origin(number), url.to_owned());
    store.write(&[Rows::Origins(vec![row(1, "https://a")])]).await.unwrap();
    let rows = vec![row(2, "https://a"), row(3, "https://b")];
    let refused = store.write(&[Rows::Origins(rows.clone())]).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Undecided(_)), "{refused}");
    store.write(&[Rows::Origins(rows[1..].to_vec())]).await.unwrap();
    let listing = Listing::Entities(Entity::Origin);
    let found = listed(listing, async |query| store.read(&query).await.unwrap()).await;
    assert_eq!(found, ListedRows::Ids([origin(1), origin(3)].into()));
}

#[tokio::test]
async fn an_invalid_address_is_refused() {
    for uri in ["http://127.0.0.1", "mongodb://", "mongodb://h:x", "mongodb+srv://cluster.example.org"] {
        let error = MongoStore::connect(uri, "p").await.unwrap_err();
        assert!(matches!(&error, StoreError::Refused(_)), "{uri}: {error}");
        assert!(error.to_string().contains("address"), "{uri}: {error}");
    }
}
