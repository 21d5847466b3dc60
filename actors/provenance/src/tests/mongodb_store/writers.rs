//! Concurrent writers of the same rows.

use futures_util::future::join_all;
use orchestrator_harness::MongoDb;

use super::{connect, documents_of};
use crate::{
    listing::Listing,
    method::Relation,
    row::{Date, RelationRow, Rows, Sha1Git},
    store::{ListedRows, OmittedRows, Query, QueryResult, Store, StoreReader},
    tests::conformance::listed,
};

pub(crate) fn id(number: u32) -> Sha1Git {
    let mut id = [7; 20];
    id[..4].copy_from_slice(&number.to_be_bytes());
    Sha1Git(id)
}

const ROWS: u32 = 100;

/// Dates and relations of the writer's own, and shared relations.
fn groups(writer: u32, round: u32) -> Vec<Rows> {
    let date = |number: u32| match (number + writer + round) % 3 {
        0 => None,
        _ => Date::from_micros(i64::from(number * 100 + writer * 10 + round)),
    };
    let mut contents: Vec<_> = (0..ROWS).map(|number| (id(number), date(number))).collect();
    fastrand::shuffle(&mut contents);
    let row = |number: u32, dst: u32| RelationRow {
        src: id(number),
        dst: id(dst % ROWS),
        path: Some(bytes::Bytes::from_static(b"p")),
    };
    let rows = (0..ROWS).flat_map(|number| [row(number, number), row(number, number + writer + 1)]).collect();
    vec![
        Rows::Contents(contents),
        Rows::Directories((0..ROWS).map(|number| (id(number), None)).collect()),
        Rows::Relations(Relation::ContentInDirectory, rows),
    ]
}

#[tokio::test]
async fn concurrent_writers_lose_and_duplicate_nothing() {
    const WRITERS: u32 = 4;
    const ROUNDS: u32 = 3;
    let server = MongoDb::start();
    let mut stores = join_all((0..WRITERS).map(|_| connect(&server, "p"))).await;
    for round in 0..ROUNDS {
        let writes = stores.iter_mut().zip(0..).map(|(store, writer)| async move {
            assert_eq!(store.write(&groups(writer, round)).await.unwrap(), OmittedRows::default());
        });
        join_all(writes).await;
    }
    for (name, count) in [("content", ROWS), ("directory", ROWS)] {
        assert_eq!(documents_of(&server, "p", name).await.len(), count as usize, "{name}");
    }
    let ids: Vec<Sha1Git> = (0..ROWS).map(id).collect();
    let QueryResult::Dates(dates) = stores[0].read(&Query::Contents(ids)).await.unwrap() else {
        panic!("dates were asked for");
    };
    for number in 0..ROWS {
        let all = (0..WRITERS).flat_map(|writer| (0..ROUNDS).map(move |round| groups(writer, round)));
        let of_number = all.flat_map(|groups| match &groups[0] {
            Rows::Contents(rows) => rows.iter().find(|row| row.0 == id(number)).unwrap().1,
            other => panic!("{other:?}"),
        });
        assert_eq!(dates.get(&id(number)).copied(), of_number.min(), "content {number}");
    }
    let listing = Listing::Relation(Relation::ContentInDirectory, None);
    let rows = listed(listing, async |query| stores[0].read(&query).await.unwrap()).await;
    let ListedRows::Relations(rows) = rows else { panic!("rows were asked for") };
    assert_eq!(rows.len() as u32, ROWS * (1 + WRITERS));
    for document in documents_of(&server, "p", "content").await {
        for (_, paths) in document.get_document("directory").unwrap() {
            assert_eq!(paths.as_array().unwrap().len(), 1, "{document}");
        }
    }
}
