//! Documents have the original's fields, and the original's documents are read.

use mongodb::bson::{Binary, Bson, Document, doc, oid::ObjectId, spec::BinarySubtype};
use orchestrator_harness::MongoDb;

use super::{collection, connect, documents_of};
use crate::{
    method::Relation,
    row::{Rows, Sha1Git},
    store::{Query, QueryResult, Store, StoreError, StoreReader},
    tests::conformance::{at, content, data, directory, origin, revision, with_path, without_path},
};

fn bin(bytes: &[u8]) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() })
}

fn id(id: Sha1Git) -> Bson {
    bin(&id.0)
}

/// Separates the `_id`s, which are ObjectIds, from the documents.
fn split_ids(documents: Vec<Document>) -> (Vec<ObjectId>, Vec<Document>) {
    let split_ids = |mut document: Document| match document.remove("_id") {
        Some(Bson::ObjectId(key)) => (key, document),
        other => panic!("_id is {other:?}"),
    };
    documents.into_iter().map(split_ids).unzip()
}

#[tokio::test]
async fn documents_have_the_original_fields() {
    let server = MongoDb::start();
    let mut store = connect(&server, "p").await;
    let groups = [
        Rows::Origins(vec![(origin(1), "https://a".into())]),
        Rows::Contents(vec![(content(1), at(1_500_000)), (content(2), None)]),
        Rows::Directories(vec![(directory(1), at(0)), (directory(2), None)]),
        Rows::Revisions(vec![
            (revision(1), data(at(-1), Some(origin(1)))),
            (revision(2), data(None, Some(origin(9)))),
        ]),
        Rows::Relations(
            Relation::ContentInRevision,
            vec![with_path(content(1), revision(1), b"a"), with_path(content(1), revision(1), b"\xff\0")],
        ),
        Rows::Relations(Relation::ContentInDirectory, vec![with_path(content(1), directory(2), b"")]),
        Rows::Relations(Relation::DirectoryInRevision, vec![with_path(directory(1), revision(2), b".")]),
        Rows::Relations(Relation::RevisionInOrigin, vec![without_path(revision(2), origin(1))]),
        Rows::Relations(Relation::RevisionBeforeRevision, vec![without_path(revision(2), revision(1))]),
    ];
    for _ in 0..2 {
        store.write(&groups).await.unwrap();
        let (revisions, revision_documents) = split_ids(documents_of(&server, "p", "revision").await);
        let (directories, directory_documents) = split_ids(documents_of(&server, "p", "directory").await);
        let (origins, origin_documents) = split_ids(documents_of(&server, "p", "origin").await);
        let (_, mut contents) = split_ids(documents_of(&server, "p", "content").await);
        for document in &mut contents {
            // A set, compared without its order.
            if let Some(Bson::Array(paths)) =
                document.get_document_mut("revision").unwrap().get_mut(revisions[0].to_hex())
            {
                paths.sort_by_key(|path| format!("{path:?}"));
            }
        }
        let mut paths = vec![bin(b"a"), bin(b"\xff\0")];
        paths.sort_by_key(|path| format!("{path:?}"));
        assert_eq!(
            contents,
            [
                doc! { "sha1": id(content(1)), "ts": 1.5, "revision": { revisions[0].to_hex(): paths },
                "directory": { directories[1].to_hex(): [bin(b"")] } },
                doc! { "sha1": id(content(2)), "ts": null, "revision": {}, "directory": {} },
            ]
        );
        assert_eq!(
            directory_documents,
            [
                doc! { "sha1": id(directory(1)), "ts": 0.0, "revision": { revisions[1].to_hex(): [bin(b".")] } },
                doc! { "sha1": id(directory(2)), "ts": null, "revision": {} },
            ]
        );
        assert_eq!(
            revision_documents,
            [
                doc! { "sha1": id(revision(1)), "ts": -0.000_001, "preferred": id(origin(1)), "origin": [], "revision": [] },
                doc! { "sha1": id(revision(2)), "ts": null, "preferred": null, "origin": [origins[0]],
                "revision": [revisions[0]] },
            ]
        );
        assert_eq!(origin_documents, [doc! { "sha1": id(origin(1)), "url": "https://a" }]);
    }
}

#[tokio::test]
async fn original_documents_are_read_and_updated() {
    let server = MongoDb::start();
    let key = ObjectId::new();
    let revisions = collection(&server, "p", "revision").await;
    // The original stores an unregistered preferred origin, too.
    let written = doc! { "_id": key, "sha1": id(revision(1)), "ts": 0.0, "preferred": id(origin(7)), "origin": [], "revision": [] };
    revisions.insert_one(written).await.unwrap();
    let contents = collection(&server, "p", "content").await;
    let written = doc! { "sha1": id(content(1)), "ts": null, "revision": { key.to_hex(): [bin(b"a")] }, "directory": {} };
    contents.insert_one(written).await.unwrap();
    let mut store = connect(&server, "p").await;
    let found = store.read(&Query::Revisions(vec![revision(1)])).await.unwrap();
    assert_eq!(
        found,
        QueryResult::Revisions([(revision(1), data(at(0), Some(origin(7))))].into()),
        "0.0 is a date"
    );
    let QueryResult::Occurrences(found) = store.read(&Query::FindFirst(content(1))).await.unwrap() else {
        panic!("occurrences were asked for");
    };
    assert_eq!((found[0].revision, found[0].date, &found[0].origin), (revision(1), at(0), &None));
    let more = Rows::Relations(Relation::ContentInRevision, vec![with_path(content(1), revision(1), b"b")]);
    store.write(&[Rows::Contents(vec![(content(1), at(5))]), more]).await.unwrap();
    let QueryResult::Occurrences(found) =
        store.read(&Query::FindAll { id: content(1), limit: None }).await.unwrap()
    else {
        panic!("occurrences were asked for");
    };
    assert_eq!(found.iter().map(|found| &found.path[..]).collect::<Vec<_>>(), [b"a", b"b"]);
    assert_eq!(documents_of(&server, "p", "content").await[0].get("ts"), Some(&Bson::Double(0.000_005)));
}

#[tokio::test]
async fn an_unexpected_field_is_named() {
    let server = MongoDb::start();
    let contents = collection(&server, "p", "content").await;
    contents.insert_one(doc! { "sha1": id(content(1)), "ts": "yesterday" }).await.unwrap();
    let mut store = connect(&server, "p").await;
    let error = store.read(&Query::Contents(vec![content(1)])).await.unwrap_err().to_string();
    assert!(error.contains("`ts`") && error.contains("correct it"), "{error}");
    assert!(error.contains(&format!("sha1 {}", content(1))), "{error}");
}

/// Such documents come from other programs. The codes are those of MongoDB.
#[tokio::test]
async fn a_document_of_another_shape_refuses_its_rows() {
    let server = MongoDb::start();
    let contents = collection(&server, "p", "content").await;
    let revisions = collection(&server, "p", "revision").await;
    let key = ObjectId::new();
    contents
        .insert_one(doc! { "_id": key, "sha1": id(content(1)), "ts": null, "revision": null })
        .await
        .unwrap();
    contents
        .insert_one(doc! { "_id": "odd", "sha1": id(content(2)), "ts": null, "revision": {} })
        .await
        .unwrap();
    revisions.insert_one(doc! { "_id": key, "sha1": id(revision(1)), "origin": null }).await.unwrap();
    let mut store = connect(&server, "p").await;
    store.write(&[Rows::Origins(vec![(origin(1), "https://a".into())])]).await.unwrap();
    let in_revision = |number| {
        Rows::Relations(Relation::ContentInRevision, vec![with_path(content(number), revision(1), b"a")])
    };
    let in_origin = Rows::Relations(Relation::RevisionInOrigin, vec![without_path(revision(1), origin(1))]);
    let by_key = format!("the document with _id {key}");
    for (rows, named, code) in [
        (in_revision(1), by_key.as_str(), "(code 28)"),
        (in_revision(2), "the document with _id String(\"odd\")", "correct it"),
        (in_origin, by_key.as_str(), "(code 2)"),
    ] {
        let refused = store.write(&[rows]).await.unwrap_err();
        let StoreError::Undecided(reason) = refused else { panic!("{refused:?}") };
        assert!(reason.contains(named) && reason.contains(code), "{reason}");
    }
}
