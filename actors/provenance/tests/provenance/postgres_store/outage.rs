//! A server that ends, in good order or not.

use orchestrator_harness::Postgres;
use orchestrator_provenance::{
    edge::postgres::{Flavor, PostgresStore, init},
    method::Entity,
    row::Rows,
    store::{Ask, Found, Question, Store, StoreError},
};

use super::{at, connect, everything, id, site};

#[tokio::test]
async fn a_server_that_dies_is_away_and_a_new_connection_works() {
    let mut server = Postgres::start();
    let dsn = server.create_database("dies");
    init(&dsn, Flavor::WithPath).await.expect("tables");
    for kill in [true, false] {
        let mut store = connect(&dsn).await;
        store.write(&site()).await.expect("written");
        let before = everything(&mut store).await;
        if kill {
            server.kill_nine();
        } else {
            server.stop();
        }
        let away = store.write(&site()).await.expect_err("nobody is there");
        assert!(matches!(away, StoreError::Away(_)), "{away}");
        assert!(store.is_closed(), "it says so");
        assert!(matches!(store.read(&Question::Counts).await, Err(StoreError::Away(_))));
        assert!(matches!(PostgresStore::connect(&dsn).await, Err(StoreError::Away(_))));
        server.start_again();
        let mut store = connect(&dsn).await;
        assert_eq!(everything(&mut store).await, before, "what was written is durable");
        store.write(&site()).await.expect("written");
    }
}

#[tokio::test]
async fn what_was_written_before_a_kill_in_mid_work_is_there() {
    let mut server = Postgres::start();
    let dsn = server.create_database("busy");
    init(&dsn, Flavor::WithPath).await.expect("tables");
    let mut store = connect(&dsn).await;
    let mut written = 0;
    let (begin, begun) = std::sync::mpsc::channel();
    let killer = std::thread::spawn(move || {
        begun.recv().expect("the word");
        server.kill_nine();
        server
    });
    let away = loop {
        let rows = (written * 200..(written + 1) * 200).map(|n| (id(n), at(1))).collect();
        if let Err(error) = store.write(&[Rows::Contents(rows)]).await {
            break error;
        }
        written += 1;
        if written == 20 {
            begin.send(()).expect("the killer waits");
        }
    };
    assert!(matches!(away, StoreError::Away(_)), "{away}");
    assert!(store.is_closed());
    let mut server = killer.join().expect("killed");
    server.start_again();
    let mut store = connect(&dsn).await;
    let Found::Ids(there) = store.read(&Question::AllEntities(Entity::Content)).await.expect("an answer")
    else {
        panic!("identifiers were asked for");
    };
    assert!((0..written * 200).all(|n| there.contains(&id(n))), "each of {written} writes is durable");
    assert!(there.len() % 200 == 0, "none is there by half");
}
