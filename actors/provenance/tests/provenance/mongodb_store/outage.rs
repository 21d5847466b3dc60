//! A server that is killed.

use orchestrator_harness::MongoDb;
use orchestrator_provenance::edge::mongodb::MongoStore;
use orchestrator_provenance::method::Entity;
use orchestrator_provenance::row::Rows;
use orchestrator_provenance::store::{Ask, Found, Question, Store, StoreError};

use super::connect;
use crate::conformance::{at, content};

#[tokio::test]
async fn a_server_that_is_killed_is_away_and_what_was_written_is_there() {
    let mut server = MongoDb::start();
    let mut store = connect(&server, "p").await;
    let rows = |number: u8| [Rows::Contents(vec![(content(number), at(i64::from(number)))])];
    store.write(&rows(1)).await.unwrap();
    server.kill_nine();
    // A connection that is refused needs no waiting for it to come up within the test's patience.
    let uri = format!("{}/?serverSelectionTimeoutMS=100", server.uri());
    let away = store.write(&rows(2)).await.unwrap_err();
    assert!(matches!(&away, StoreError::Away(_)), "{away}");
    let away = MongoStore::connect(&uri, "p").await.unwrap_err();
    assert!(matches!(&away, StoreError::Away(_)), "{away}");
    server.start_again();
    let mut store = connect(&server, "p").await;
    store.write(&rows(2)).await.unwrap();
    let found = store.read(&Question::AllEntities(Entity::Content)).await.unwrap();
    assert_eq!(found, Found::Ids([content(1), content(2)].into()));
}

#[tokio::test]
async fn what_was_written_before_a_kill_in_mid_work_is_there() {
    let mut server = MongoDb::start();
    let mut store = connect(&server, "p").await;
    let (begin, begun) = std::sync::mpsc::channel();
    let killer = std::thread::spawn({
        move || {
            begun.recv().unwrap();
            server.kill_nine();
            server
        }
    });
    let mut written = 0;
    let away = loop {
        let rows = (0..50).map(|row| (super::writers::id(written * 50 + row), at(1))).collect();
        if let Err(error) = store.write(&[Rows::Contents(rows)]).await {
            break error;
        }
        written += 1;
        if written == 5 {
            begin.send(()).unwrap();
        }
    };
    assert!(matches!(&away, StoreError::Away(_)), "{away}");
    let mut server = killer.join().unwrap();
    server.start_again();
    let mut store = connect(&server, "p").await;
    let Found::Ids(there) = store.read(&Question::AllEntities(Entity::Content)).await.unwrap() else {
        panic!("identifiers were asked for");
    };
    assert!((0..written * 50).all(|number| there.contains(&super::writers::id(number))), "{written} writes");
}
