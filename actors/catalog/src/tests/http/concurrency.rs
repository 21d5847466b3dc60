//! Number and order of concurrent requests.

use bytes::Bytes;
use futures_util::future::join_all;
use orchestrator_harness::Ermrest;
use orchestrator_supervise::{Command, Origin};
use serde_json::{Value, json};

use super::fixture::{self, *};
use crate::service::{Put, RequestError, Service};

const WRITE: &str = "/attributegroup/Foo/id;state";

#[test]
fn writes_are_sent_one_by_one_in_the_order_of_their_calls() {
    let server = Ermrest::start(&["--write-ms", "5"]);
    server.insert_foo(20, "new");
    let (catalog, spec) = to(&server.url());
    TestTree::run(spec, async |tree| {
        let writes = (1..=20).map(|id| {
            let (catalog, body) = (catalog.clone(), json!([{"id": id, "state": id.to_string()}]));
            async move { written(put(&catalog, WRITE, &body).await) }
        });
        let written = join_all(writes).await;
        let wanted: Vec<Vec<Value>> =
            (1..=20).map(|id| vec![json!({"id": id, "state": id.to_string()})]).collect();
        assert_eq!(written, wanted);
        assert_eq!(metric(&tree, "aborted", None), 0, "none met another one");
        assert_eq!(metric(&tree, "in_flight", None), 0);
    });
    assert_eq!(server.log()["writers"], json!(1));
    let in_order = server.rows("Foo");
    let mut stamps: Vec<(String, u64)> = in_order
        .iter()
        .map(|row| (row["RMT"].as_str().unwrap().to_owned(), row["id"].as_u64().unwrap()))
        .collect();
    stamps.sort();
    assert_eq!(stamps.iter().map(|(_, id)| *id).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_retried_write_keeps_its_permit() {
    let server = Ermrest::start(&[]);
    server.insert_foo(2, "new");
    let (catalog, spec) = to(&server.url());
    server.set_faults(
        &json!({"storm": {"code": 503, "count": 3, "method": "PUT", "body": "Transaction aborted."}}),
    );
    TestTree::run(spec, async |_tree| {
        let body = |id: u32| json!([{"id": id, "state": "x"}]);
        let (first, second) = (body(1), body(2));
        let done = tokio::join!(put(&catalog, WRITE, &first), put(&catalog, WRITE, &second));
        assert!(done.0.is_ok() && done.1.is_ok(), "{done:?}");
    });
    let order: Vec<String> = server
        .requests()
        .iter()
        .filter(|request| request["method"] == "PUT")
        .map(|request| request["headers"]["content-length"].to_string())
        .collect();
    assert_eq!(order.len(), 5, "three that were aborted, and two");
    let rows = server.rows("Foo");
    let stamp =
        |id: u32| rows.iter().find(|row| row["id"] == json!(id)).unwrap()["RMT"].as_str().unwrap().to_owned();
    assert!(stamp(1) < stamp(2), "the second waited for the first");
}

#[test]
fn four_reads_run_at_once_over_kept_connections() {
    let server = Ermrest::start(&[]);
    let (catalog, spec) = to(&server.url());
    server.set_faults(&json!({"delay_ms": 50}));
    TestTree::run(spec, async |tree| {
        let most = std::cell::Cell::new(0);
        let asked = join_all((0..12).map(|_| get(&catalog, "/entity/Foo")));
        let watched = async {
            loop {
                most.set(most.get().max(metric(&tree, "in_flight", None)));
                tokio::task::yield_now().await;
            }
        };
        let answers = tokio::select! {
            answers = asked => answers,
            () = watched => unreachable!("it never ends"),
        };
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(most.get(), 4);
    });
    assert_eq!(server.log()["connections"], json!(4));
}

#[test]
fn a_read_does_not_wait_for_a_write() {
    let server = Ermrest::start(&["--write-ms", "300000"]);
    let (catalog, spec) = without_drain(&server.url());
    TestTree::run(spec, async |tree| {
        let write = json!([]);
        let write = put(&catalog, WRITE, &write);
        tokio::select! {
            written = write => panic!("{written:?}"),
            answer = async {
                eventually("the write is under way", || metric(&tree, "in_flight", None) == 1).await;
                get(&catalog, "/entity/Foo").await
            } => assert!(answer.is_ok()),
        }
    });
}

#[test]
fn a_stop_waits_for_requests_in_flight() {
    let server = Ermrest::start(&["--write-ms", "200"]);
    server.insert_foo(1, "new");
    let (catalog, spec) = to(&server.url());
    actix_rt::System::new().block_on(async {
        let mut tested = TestTree::start(spec).await;
        let body = Bytes::from(r#"[{"id": 1, "state": "done"}]"#);
        let write = catalog.put(Put { path: WRITE.to_owned(), if_match: None, body }, WRITE_PRIORITY);
        let stop = async {
            let tree = tested.root().tree().clone();
            eventually("the write is under way", || metric(&tree, "in_flight", None) == 1).await;
            tested.stop().await;
        };
        let (written, ()) = tokio::join!(write, stop);
        assert_eq!(fixture::written(written), [json!({"id": 1, "state": "done"})]);
    });
    assert_eq!(server.rows("Foo")[0]["state"], json!("done"));
}

#[test]
fn a_write_whose_caller_has_gone_keeps_its_permit_and_is_carried_out() {
    let server = Ermrest::start(&["--write-ms", "200"]);
    server.insert_foo(2, "new");
    let (catalog, spec) = to(&server.url());
    TestTree::run(spec, async |tree| {
        let begun = || metric(&tree, "in_flight", None) == 1;
        tokio::select! {
            written = put(&catalog, WRITE, json!([{"id": 1, "state": "done"}])) => panic!("{written:?}"),
            () = eventually("the first write is under way", begun) => {}
        }
        assert!(begun(), "it goes on without its caller");
        let second = put(&catalog, WRITE, json!([{"id": 2, "state": "done"}])).await;
        assert_eq!(fixture::written(second), [json!({"id": 2, "state": "done"})]);
    });
    assert_eq!((server.response_count("PUT", 200), &server.log()["writers"]), (2, &json!(1)));
}

#[test]
fn every_caller_of_a_killed_child_gets_a_result() {
    let server = Ermrest::start(&[]);
    let (catalog, spec) = without_drain(&server.url());
    server.set_faults(&json!({"delay_ms": 3_600_000}));
    TestTree::run(spec, async |tree| {
        let body = json!([]);
        let killed = async {
            eventually("both have reached the server", || server.requests().len() == 2).await;
            server.set_faults(&json!({"delay_ms": 0}));
            tree.command("http", Command::Restart, &Origin::default()).await.unwrap();
        };
        let calls = async {
            tokio::join!(
                get(&catalog, "/entity/Foo"),
                put(&catalog, WRITE, &body),
                // Waits for the first write, so the next incarnation sends it.
                put(&catalog, WRITE, &body),
            )
        };
        let ((read, written, queued), ()) = tokio::join!(calls, killed);
        assert!(matches!(read, Err(RequestError::Unavailable(_))), "{read:?}");
        assert!(matches!(written, Err(RequestError::OutcomeUnknown(_))), "{written:?}");
        assert!(queued.is_ok(), "{queued:?}");
    });
}
