//! Sets: summaries, pages, and indexes.

use orchestrator_producer_rules::{cursor::SetSummary, id::Id, stencil::Set};
use std::time::{Duration, Instant};

use crate::{
    store::{Store, StoreError},
    walk::PageWalk,
};

use super::*;

async fn walked(store: &MongoStore, set: Set, page_size: u32) -> Vec<Id> {
    let mut walk = PageWalk::new(set, page_size, None);
    let mut pages = Vec::new();
    while let Some(page) = walk.next(store).await.unwrap() {
        pages.push(page);
    }
    pages
}

#[tokio::test]
async fn pages_start_at_every_nth_tangle_of_a_set() {
    let server = MongoDb::start();
    // Not in the order of insertion; every third is not good.
    let documents = (0..100).map(|number| tangle(number * 37 % 101, 4, number * 37 % 101 % 3 > 0)).collect();
    insert(&server, "tangles", documents).await;
    insert(&server, "tangles", vec![tangle(1_000, 5, true), tangle(1_001, -1, true)]).await;
    let store = open(&server, false).await;
    let numbers = || (0..=100).filter(|number| (0..100).any(|at| at * 37 % 101 == *number));
    let (all, good) = (Set::Rootstock { tcn: 4 }, Set::Scion { tcn: 4 });
    for page_size in [1, 2, 7, 100, 1_000] {
        let wanted: Vec<Id> = numbers().step_by(page_size as usize).map(id).collect();
        assert_eq!(walked(&store, all, page_size).await, wanted, "{page_size}");
        let wanted: Vec<Id> =
            numbers().filter(|number| number % 3 > 0).step_by(page_size as usize).map(id).collect();
        assert_eq!(walked(&store, good, page_size).await, wanted, "good, {page_size}");
    }
    assert_eq!(walked(&store, Set::Rootstock { tcn: 6 }, 2).await, []);
    assert_eq!(walked(&store, Set::Rootstock { tcn: -1 }, 2).await, [id(1_001)]);
    let good_count = numbers().filter(|number| number % 3 > 0).count() as u64;
    let greatest = numbers().filter(|number| number % 3 > 0).max().map(id);
    assert_eq!(store.set_summary(good).await, Ok(SetSummary { count: good_count, greatest }));
    assert_eq!(store.set_summary(Set::Scion { tcn: 6 }).await, Ok(SetSummary::default()));
}

#[tokio::test]
async fn a_resumed_walk_starts_at_its_page() {
    let server = MongoDb::start();
    insert(&server, "tangles", (0..9).map(|number| tangle(number, 4, true)).collect()).await;
    let store = open(&server, false).await;
    let mut walk = PageWalk::resumed(Set::Rootstock { tcn: 4 }, 2, id(4));
    for page in [Some(id(4)), Some(id(6)), Some(id(8)), None] {
        assert_eq!(walk.next(&store).await, Ok(page));
    }
}

#[tokio::test]
async fn a_tangle_with_an_invalid_id_is_named() {
    let server = MongoDb::start();
    insert(&server, "tangles", vec![doc! { "_id": 17, "TCN": 4, "is_good": true }]).await;
    let page = open(&server, false).await.page(Set::Rootstock { tcn: 4 }, None, 0).await;
    let Err(StoreError::InvalidDocument(invalid)) = page else { panic!("{page:?}") };
    assert_eq!((invalid.collection.as_str(), invalid.id.as_str(), invalid.field), ("tangles", "17", "_id"));
}

/// Flaw 13: the original's indexes do not serve the rootstocks of a TCN in the order of `_id`.
#[tokio::test]
async fn flaw_13_missing_indexes_are_listed_and_created() {
    let server = MongoDb::start();
    let store = open(&server, false).await;
    assert_eq!(store.missing_indexes().await.map(|missing| missing.len()), Ok(2), "no collection yet");
    insert(&server, "tangles", vec![tangle(1, 4, true)]).await;
    let shipped = mongodb::IndexModel::builder().keys(doc! { "TCN": 1, "is_good": 1, "_id": 1 }).build();
    collection(&server, "tangles").await.create_index(shipped).await.unwrap();
    let missing = store.missing_indexes().await.unwrap();
    assert!(
        missing.len() == 1 && missing[0].contains("TCN") && !missing[0].contains("is_good"),
        "{missing:?}"
    );
    store.ensure_indexes().await.unwrap();
    assert_eq!(store.missing_indexes().await, Ok(Vec::new()));
    store.ensure_indexes().await.expect("no index is missing");
}

#[tokio::test]
async fn an_invalid_address_is_refused_at_once() {
    let started = Instant::now();
    let error =
        MongoStore::open("localhost:27017", collections(), false, None).await.unwrap_err().to_string();
    assert!(error.contains("write mongodb://"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(1));
}
