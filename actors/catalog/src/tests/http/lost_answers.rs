//! Connections that break during a request.

use orchestrator_harness::Ermrest;
use serde_json::json;

use super::{
    fixture::*,
    scripted::{Scripted, reply},
};
use crate::{edge::credentials::Source, service::RequestError};

const FOO: &str = "/entity/Foo";
const WRITE: &str = "/attributegroup/Foo/id;state";

#[test]
fn a_write_without_an_answer_has_an_unknown_outcome() {
    for (fault, state) in [("lose_put_reply", "done"), ("drop_put", "new")] {
        let server = Ermrest::start(&[]);
        server.insert_foo(1, "new");
        let (catalog, spec) = to(&server.url());
        TestTree::run(spec, async |tree| {
            assert!(get(&catalog, FOO).await.is_ok(), "a connection that is used again");
            server.set_faults(&json!({fault: 1}));
            let Err(RequestError::OutcomeUnknown(text)) =
                put(&catalog, WRITE, json!([{"id": 1, "state": "done"}])).await
            else {
                panic!("{fault}")
            };
            assert!(text.starts_with("whether PUT /attributegroup/Foo/id;state was carried out"), "{text}");
            assert!(get(&catalog, FOO).await.is_ok());
            assert_eq!(metric(&tree, "requests", Some("none")), 1);
        });
        assert_eq!(server.rows("Foo")[0]["state"], json!(state));
        let writes = server.requests().iter().filter(|request| request["method"] == "PUT").count();
        assert_eq!(writes, 1, "{fault}: it is never sent twice");
    }
}

#[test]
fn a_read_on_a_closed_kept_connection_is_repeated_at_once() {
    // The second request of a connection is not answered, as if it had arrived after the close.
    let server = Scripted::start(|_, number| if number == 1 { reply("200 OK", "[]\n") } else { None });
    let (catalog, spec) = to(&server.base());
    TestTree::run(spec, async |tree| {
        for _ in 0..3 {
            assert!(get(&catalog, FOO).await.is_ok());
        }
        assert!(is_up(&tree));
    });
    assert_eq!(server.requests().len(), 5, "the second and the third were asked twice");
}

#[test]
fn a_read_on_a_new_connection_is_not_repeated() {
    let server = Scripted::start(|_, _| None);
    let (catalog, spec) = to(&server.base());
    TestTree::run(spec, async |tree| {
        assert!(matches!(get(&catalog, FOO).await, Err(RequestError::Unavailable(_))));
        assert!(!is_up(&tree));
    });
    let asked = server.requests().iter().filter(|request| request.contains(FOO)).count();
    assert_eq!(asked, 1);
}

#[test]
fn a_connection_that_the_server_closed_is_not_written_to() {
    let server = Scripted::start(|_, _| reply("200 OK", "[]\n"));
    let (catalog, spec) = to(&server.base());
    TestTree::run(spec, async |_tree| {
        for round in 1..=10 {
            assert!(get(&catalog, FOO).await.is_ok());
            server.close_connections();
            // Whether the client has noticed the close by then is random.
            let closed = || open_connections(server.port()) == 0;
            orchestrator_harness::eventually("the server has closed the connection", closed);
            let written = put(&catalog, WRITE, json!([])).await;
            assert!(written.is_ok(), "round {round}: {written:?}");
        }
    });
    assert_eq!(server.requests().len(), 20);
}

#[test]
fn a_partial_answer_is_an_error() {
    let server = Ermrest::start(&[]);
    server.insert_foo(50, "new");
    let (catalog, spec) = to(&server.url());
    TestTree::run(spec, async |_tree| {
        // All answers: that to the probe of the link, which is down after the first one, is cut, too.
        server.set_faults(&json!({"cut_body": 1_000}));
        assert!(matches!(get(&catalog, FOO).await, Err(RequestError::Unavailable(_))));
        let update = json!([{"id": 1, "state": "done"}]);
        assert!(matches!(put(&catalog, WRITE, &update).await, Err(RequestError::OutcomeUnknown(_))));
    });
    assert_eq!(server.response_count("PUT", 200), 1);
}

#[test]
fn an_unresponsive_server_times_out() {
    let server = Ermrest::start(&[]);
    let (catalog, spec) = with(endpoint(&server.url()).timeouts(SHORT_TIMEOUTS), Source::Anonymous);
    TestTree::run(spec, async |tree| {
        assert!(get(&catalog, FOO).await.is_ok());
        server.freeze();
        let body = json!([]);
        let (read, written) = tokio::join!(get(&catalog, FOO), put(&catalog, WRITE, &body));
        let Err(RequestError::Unavailable(text)) = read else { panic!("{read:?}") };
        assert!(text.contains("no response within 2s"), "{text}");
        assert!(matches!(written, Err(RequestError::OutcomeUnknown(_))), "{written:?}");
        assert!(!is_up(&tree));
        server.thaw();
        eventually("the link is up", || is_up(&tree)).await;
    });
}

#[test]
fn an_answer_beyond_the_limit_is_not_read() {
    let server = Ermrest::start(&[]);
    server.insert_foo(100, "new");
    let (catalog, spec) = with(endpoint(&server.url()).body_limit(1_000), Source::Anonymous);
    TestTree::run(spec, async |tree| {
        let Err(RequestError::Rejected(text)) = get(&catalog, FOO).await else { panic!() };
        assert_eq!(
            text,
            "GET /entity/Foo: the response is larger than 1000 bytes: ask for fewer rows at once"
        );
        let update: Vec<_> = (1..=100).map(|id| json!({"id": id, "state": "done"})).collect();
        assert!(matches!(put(&catalog, WRITE, &update.into()).await, Err(RequestError::OutcomeUnknown(_))));
        assert!(get(&catalog, "/entity/Foo/id=1").await.is_ok());
        assert!(is_up(&tree));
    });
}
