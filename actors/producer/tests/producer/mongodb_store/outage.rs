//! A server that is away: told in bounded time, and used again when it is back.

use std::time::{Duration, Instant};

use orchestrator_producer::{
    advance::Mark,
    stencil::{Selection, State},
    store::{Store, StoreError},
};

use super::*;

#[tokio::test]
async fn an_outage_is_told_and_ends_by_itself() {
    let mut server = MongoDb::start();
    insert(&server, "stencils", vec![config(3, 9), stencil(1, 2, 3, 0)]).await;
    let uri = format!("{}/?serverSelectionTimeoutMS=300", server.uri());
    let store = MongoStore::open(&uri, place(), false).await.unwrap();
    store.ledger().await.unwrap();
    server.kill_nine();
    let begun = Instant::now();
    let started = Mark { id: id(1), state: State::Started, cursor: None };
    for _ in 0..2 {
        for error in [
            store.ledger().await.unwrap_err(),
            store.count(Selection::All).await.unwrap_err(),
            store.list(Selection::All).await.unwrap_err(),
            store.mark(&started, Some(1)).await.unwrap_err(),
            store.renew(1, 1_000).await.unwrap_err(),
        ] {
            assert!(matches!(&error, StoreError::Away(reason) if reason.contains("while")), "{error}");
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    server.start_again();
    let give_up = Instant::now() + orchestrator_harness::DEADLINE;
    while store.mark(&started, Some(1)).await.is_err() {
        assert!(Instant::now() < give_up, "it does not come back");
    }
    let found = store.list(Selection::All).await.unwrap().remove(0).unwrap();
    assert_eq!(found.state, State::Started);
}
