//! Connections that break: what is known of a request then, and what is not.

use orchestrator_catalog::{edge::credentials::Source, service::Trouble};
use orchestrator_harness::Ermrest;
use serde_json::json;

use super::{
    fixture::*,
    scripted::{Scripted, reply},
};

const FOO: &str = "/entity/Foo";
const WRITE: &str = "/attributegroup/Foo/id;state";

#[test]
fn a_write_without_an_answer_is_unsettled_whatever_the_server_did() {
    for (fault, state) in [("lose_put_reply", "done"), ("drop_put", "new")] {
        let server = Ermrest::start(&[]);
        server.insert_foo(1, "new");
        let (catalog, spec) = to(&server.url());
        TestTree::run(spec, async |tree| {
            assert!(get(&catalog, FOO).await.is_ok(), "a connection that is used again");
            server.set_faults(&json!({fault: 1}));
            let Err(Trouble::Unsettled(text)) =
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
fn a_question_on_a_connection_that_the_server_gave_up_is_asked_again_at_once() {
    // The second request of a connection is not answered, as if it had come too late.
    let server = Scripted::start(|_, number| if number == 1 { reply("200 OK", "[]\n") } else { None });
    let (catalog, spec) = to(&server.base());
    TestTree::run(spec, async |tree| {
        for _ in 0..3 {
            assert!(get(&catalog, FOO).await.is_ok());
        }
        assert!(is_up(&tree));
    });
    assert_eq!(server.heard().len(), 5, "the second and the third were asked twice");
}

#[test]
fn a_question_on_a_fresh_connection_is_not_asked_again() {
    let server = Scripted::start(|_, _| None);
    let (catalog, spec) = to(&server.base());
    TestTree::run(spec, async |tree| {
        assert!(matches!(get(&catalog, FOO).await, Err(Trouble::Away(_))));
        assert!(!is_up(&tree));
    });
    let asked = server.heard().iter().filter(|request| request.contains(FOO)).count();
    assert_eq!(asked, 1);
}

#[test]
fn a_connection_that_the_server_closed_is_not_written_to() {
    let server = Scripted::start(|_, _| reply("200 OK", "[]\n"));
    let (catalog, spec) = to(&server.base());
    TestTree::run(spec, async |_tree| {
        for round in 1..=10 {
            assert!(get(&catalog, FOO).await.is_ok());
            server.hang_up();
            // Whether the edge has heard of it by then is left to chance.
            let closed = || open_connections(server.port()) == 0;
            orchestrator_harness::eventually("the server has closed the connection", closed);
            let written = put(&catalog, WRITE, json!([])).await;
            assert!(written.is_ok(), "round {round}: {written:?}");
        }
    });
    assert_eq!(server.heard().len(), 20);
}

#[test]
fn half_an_answer_is_none() {
    let server = Ermrest::start(&[]);
    server.insert_foo(50, "new");
    let (catalog, spec) = to(&server.url());
    TestTree::run(spec, async |_tree| {
        server.set_faults(&json!({"cut_body": 1}));
        assert!(matches!(get(&catalog, FOO).await, Err(Trouble::Away(_))));
        server.set_faults(&json!({"cut_body": 1}));
        let update = json!([{"id": 1, "state": "done"}]);
        assert!(matches!(put(&catalog, WRITE, &update).await, Err(Trouble::Unsettled(_))));
    });
    assert_eq!(server.response_count("PUT", 200), 1);
}

#[test]
fn a_server_that_stands_still_is_given_up_after_a_while() {
    let server = Ermrest::start(&[]);
    let (catalog, spec) = with(place(&server.url()).patience(IMPATIENT), Source::Anonymous);
    TestTree::run(spec, async |tree| {
        assert!(get(&catalog, FOO).await.is_ok());
        server.freeze();
        let body = json!([]);
        let (read, written) = tokio::join!(get(&catalog, FOO), put(&catalog, WRITE, &body));
        let Err(Trouble::Away(text)) = read else { panic!("{read:?}") };
        assert!(text.contains("none within 2s"), "{text}");
        assert!(matches!(written, Err(Trouble::Unsettled(_))), "{written:?}");
        assert!(!is_up(&tree));
        server.thaw();
        eventually("the link is up", || is_up(&tree)).await;
    });
}

#[test]
fn an_answer_beyond_all_bounds_is_not_read() {
    let server = Ermrest::start(&[]);
    server.insert_foo(100, "new");
    let (catalog, spec) = with(place(&server.url()).body_limit(1_000), Source::Anonymous);
    TestTree::run(spec, async |tree| {
        let Err(Trouble::Refused(text)) = get(&catalog, FOO).await else { panic!() };
        assert_eq!(text, "GET /entity/Foo: the answer is larger than 1000 bytes: ask for fewer rows at once");
        let update: Vec<_> = (1..=100).map(|id| json!({"id": id, "state": "done"})).collect();
        assert!(matches!(put(&catalog, WRITE, &update.into()).await, Err(Trouble::Unsettled(_))));
        assert!(get(&catalog, "/entity/Foo/id=1").await.is_ok());
        assert!(is_up(&tree));
    });
}
