//! Documents, commands and addresses at their limits.

use mongodb::bson::doc;
use orchestrator_harness::MongoDb;
use orchestrator_provenance::edge::mongodb::MongoStore;
use orchestrator_provenance::method::{Entity, Relation};
use orchestrator_provenance::row::Rows;
use orchestrator_provenance::store::{Ask, Found, Question, Store, StoreError};

use super::{collection, connect, documents_of};
use crate::conformance::{bare_revisions, content, origin, placed, revision};

#[tokio::test]
async fn a_document_that_would_be_too_large_is_refused_and_the_others_are_stored() {
    let server = MongoDb::start();
    let mut store = connect(&server, "p").await;
    let contents = (0..3).map(|number| (content(number), None)).collect();
    store.write(&[Rows::Contents(contents), bare_revisions(0..1)]).await.unwrap();
    let row = |number: u8, byte: u8, length: usize| {
        let path = vec![byte; length];
        Rows::Relations(Relation::ContentInRevision, vec![placed(content(number), revision(0), &path)])
    };
    store.write(&[row(0, b'a', 9 << 20)]).await.unwrap();
    // Two of them in one command would be too large for it; each alone is not.
    let both = vec![
        placed(content(1), revision(0), &vec![b'a'; 9 << 20]),
        placed(content(2), revision(0), &vec![b'b'; 9 << 20]),
    ];
    store.write(&[Rows::Relations(Relation::ContentInRevision, both)]).await.unwrap();
    for too_large in [row(0, b'b', 9 << 20), row(0, b'b', 17 << 20)] {
        let refused = store.write(&[too_large]).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Refused(_)), "{refused}");
    }
    store.write(&[row(0, b'c', 10)]).await.unwrap();
    let asked = Question::Relations {
        relation: Relation::ContentInRevision,
        ids: vec![content(0), content(1), content(2)],
        reverse: false,
    };
    let Found::Relations(rows) = store.read(&asked).await.unwrap() else {
        panic!("rows were asked for");
    };
    let lengths: Vec<usize> = rows.iter().map(|row| row.path.as_ref().unwrap().len()).collect();
    assert_eq!(lengths, [9 << 20, 10, 9 << 20, 9 << 20]);
}

#[tokio::test]
async fn many_rows_of_one_source_are_written_in_shares() {
    let server = MongoDb::start();
    let mut store = connect(&server, "p").await;
    let paths: Vec<String> = (0..5_000).map(|number| format!("{number:0>1000}")).collect();
    let rows = paths.iter().map(|path| placed(content(0), revision(0), path.as_bytes())).collect();
    let relations = Rows::Relations(Relation::ContentInRevision, rows);
    let groups = [Rows::Contents(vec![(content(0), None)]), bare_revisions(0..1), relations];
    store.write(&groups).await.unwrap();
    let Found::Paths(found) = store.read(&Question::AllLocations).await.unwrap() else {
        panic!("paths were asked for");
    };
    assert_eq!(found.len(), paths.len());
}

#[tokio::test]
async fn a_database_with_twins_gets_no_index_and_is_used() {
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

/// What another's index does not take is refused after some tries: an insertion that lost a race would be there by then.
#[tokio::test]
async fn a_unique_index_of_somebody_else_refuses_its_rows() {
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
    assert!(matches!(&refused, StoreError::Refused(_)), "{refused}");
    store.write(&[Rows::Origins(rows[1..].to_vec())]).await.unwrap();
    let found = store.read(&Question::AllEntities(Entity::Origin)).await.unwrap();
    assert_eq!(found, Found::Ids([origin(1), origin(3)].into()));
}

#[tokio::test]
async fn an_address_that_is_none_is_named() {
    for uri in ["http://127.0.0.1", "mongodb://", "mongodb://h:x", "mongodb+srv://cluster.example.org"] {
        let error = MongoStore::connect(uri, "p").await.unwrap_err();
        assert!(matches!(&error, StoreError::Refused(_)), "{uri}: {error}");
        assert!(error.to_string().contains("address"), "{uri}: {error}");
    }
}
