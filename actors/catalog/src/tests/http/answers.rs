//! Error answers: statuses, aborted transactions, `Retry-After`, refused credentials.

use std::time::{Duration, Instant};

use orchestrator_harness::Ermrest;
use orchestrator_subsystem::Secret;
use serde_json::json;

use super::fixture::*;
use crate::{
    edge::{credentials::Source, http::Timeouts},
    priority_semaphore::{Purpose, WritePriority},
    service::{Put, RequestError, Service},
};

const FOO: &str = "/entity/Foo/state=new";
const WRITE: &str = "/attributegroup/Foo/id;state";

#[test]
fn a_rejected_request_is_reported_in_the_servers_words() {
    let server = Ermrest::start(&[]);
    let (catalog, spec) = to(&server.url());
    TestTree::run(spec, async |tree| {
        for (path, said) in [
            (
                "/entity/Nope/a=1",
                "with 409: Request conflicts with state of server. Detail: Table Nope not found",
            ),
            ("/entity/Foo/state==", "with 400: Request malformed. Detail: URL parse error"),
        ] {
            let Err(RequestError::Rejected(text)) = get(&catalog, path).await else {
                panic!("{path} is right")
            };
            assert!(text.contains(&format!("GET {path} {said}")), "{text}");
        }
        assert!(matches!(get(&catalog, "x").await, Err(RequestError::NotFound(_))), "another catalog");
        let Err(RequestError::Rejected(text)) = put(&catalog, WRITE, json!({"s3cret": 1})).await else {
            panic!()
        };
        assert!(text.contains("PUT /attributegroup/Foo/id;state") && !text.contains("s3cret"), "{text}");
        assert!(is_up(&tree), "whatever a server answers, it is there");
    });
}

#[test]
fn an_aborted_transaction_is_retried_at_once() {
    let server = Ermrest::start(&[]);
    server.insert_foo(1, "new");
    let (catalog, spec) = to(&server.url());
    let abort = |method: &str, count: u32| {
        let body = "The service is temporarily unavailable. Detail: Transaction aborted.";
        server.set_faults(&json!({"storm": {"code": 503, "count": count, "method": method, "body": body}}));
    };
    TestTree::run(spec, async |tree| {
        abort("PUT", 3);
        let begun = Instant::now();
        let update = json!([{"id": 1, "state": "done"}]);
        assert_eq!(written(put(&catalog, WRITE, &update).await), [json!({"id": 1, "state": "done"})]);
        assert!(begun.elapsed() >= Duration::from_millis(60), "three pauses of 20 ms at least");
        abort("GET", 1);
        assert!(rows(get(&catalog, FOO).await).1.is_empty());
        assert_eq!(metric(&tree, "aborted", None), 4);
    });
}

#[test]
fn an_aborted_claim_is_not_repeated() {
    let server = Ermrest::start(&[]);
    let (catalog, spec) = to(&server.url());
    server.set_faults(&json!({"storm": {"code": 503, "count": 1, "body": "Transaction aborted."}}));
    TestTree::run(spec, async |tree| {
        let claim = Put { path: WRITE.to_owned(), if_match: None, body: "[]".into() };
        let priority = WritePriority { purpose: Purpose::Claim, priority: 0 };
        assert_eq!(catalog.put(claim, priority).await, Err(RequestError::Aborted));
        assert_eq!((metric(&tree, "aborted", None), server.requests().len()), (1, 1));
    });
}

#[test]
fn a_transaction_that_is_always_aborted_fails_unwritten() {
    let server = Ermrest::start(&[]);
    let timeouts = Timeouts { aborted: Duration::from_millis(200), ..Timeouts::default() };
    let (catalog, spec) = with(endpoint(&server.url()).timeouts(timeouts), Source::Anonymous);
    server.set_faults(&json!({"storm": {"code": 503, "count": 1000, "body": "Transaction aborted."}}));
    TestTree::run(spec, async |_tree| {
        let Err(RequestError::Unavailable(text)) = put(&catalog, WRITE, json!([])).await else { panic!() };
        assert!(text.contains("has aborted PUT /attributegroup/Foo/id;state for 200ms"), "{text}");
    });
}

#[test]
fn a_write_answered_with_5xx_has_an_unknown_outcome() {
    let server = Ermrest::start(&[]);
    let (catalog, spec) = to(&server.url());
    TestTree::run(spec, async |_tree| {
        for code in [500, 502, 503, 504] {
            server.set_faults(&json!({"storm": {"code": code, "count": 2}}));
            assert!(matches!(get(&catalog, FOO).await, Err(RequestError::Unavailable(_))), "{code}");
            assert!(
                matches!(put(&catalog, WRITE, json!([])).await, Err(RequestError::OutcomeUnknown(_))),
                "{code}"
            );
        }
    });
}

#[test]
fn retry_after_is_obeyed_up_to_the_cap() {
    let server = Ermrest::start(&[]);
    for (code, retry_after, held) in
        [(503, "3600", 400), (429, "Fri, 20 Nov 2099 12:00:00 GMT", 400), (503, "0", 0)]
    {
        let too_many_requests_max = Duration::from_millis(400);
        let timeouts =
            Timeouts { too_many_requests_max, unavailable_max: too_many_requests_max, ..Timeouts::default() };
        let (catalog, spec) = with(endpoint(&server.url()).timeouts(timeouts), Source::Anonymous);
        TestTree::run(spec, async |tree| {
            server.set_faults(&json!({"storm": {"code": code, "count": 1, "retry_after": retry_after}}));
            let begun = Instant::now();
            let answer = put(&catalog, WRITE, json!([])).await;
            assert!(matches!(answer, Err(RequestError::Unavailable(_))), "nothing was written: {answer:?}");
            let before = server.requests().len();
            let (read, written) = tokio::join!(get(&catalog, FOO), put(&catalog, WRITE, json!([])));
            assert!(read.is_ok() && written.is_ok(), "{read:?} {written:?}");
            assert!(begun.elapsed() >= Duration::from_millis(held), "{code} {retry_after}");
            assert_eq!(server.requests().len(), before + 2);
            assert!(node(&tree).note.is_some());
        });
    }
}

#[test]
fn refused_credentials_are_read_again_once() {
    let server = Ermrest::start(&["--token", "first"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first").unwrap();
    let (catalog, spec) = with(endpoint(&server.url()), Source::TokenFile(file.path().to_owned()));
    TestTree::run(spec, async |_tree| {
        assert!(get(&catalog, FOO).await.is_ok());
        server.set_faults(&json!({"token": "second"}));
        std::fs::write(file.path(), "second").unwrap();
        assert!(get(&catalog, FOO).await.is_ok(), "within the second in which files are not looked at");
        server.set_faults(&json!({"token": "third"}));
        let asked = server.requests().len();
        let Err(error @ RequestError::Unauthorized(_)) = get(&catalog, FOO).await else { panic!() };
        let text = error.to_string();
        assert_eq!(server.requests().len(), asked + 2);
        assert!(text.contains("with 401") && text.contains(file.path().to_str().unwrap()), "{text}");
        assert!(!text.contains("second"), "{text}");
        let Err(RequestError::Unauthorized(_)) = put(&catalog, WRITE, json!([])).await else { panic!() };
    });
}

#[test]
fn a_token_and_a_cookie_are_sent_unchanged() {
    let server = Ermrest::start(&["--token", "good"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{"localhost": {"cookie": "webauthn=good; Path=/"}}"#).unwrap();
    let sources = [Source::Token(Secret::new("good")), Source::file(file.path())];
    for (source, header, value) in sources
        .into_iter()
        .zip(["authorization", "cookie"])
        .zip(["Bearer good", "webauthn=good"])
        .map(|((a, b), c)| (a, b, c))
    {
        let (catalog, spec) = with(endpoint(&server.url()), source);
        TestTree::run(spec, async |_tree| assert!(get(&catalog, FOO).await.is_ok()));
        assert_eq!(server.requests().last().unwrap()["headers"][header], json!(value));
    }
}

#[test]
fn user_and_password_are_exchanged_for_a_session_and_again_when_it_ends() {
    let server = Ermrest::start(&["--token", "t1", "--user", "ada:love lace&+%"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let entry = json!({"localhost": {"username": "ada", "password": "love lace&+%"}});
    std::fs::write(file.path(), entry.to_string()).unwrap();
    let (catalog, spec) = with(endpoint(&server.url()), Source::file(file.path()));
    TestTree::run(spec, async |_tree| {
        let answers = tokio::join!(get(&catalog, FOO), get(&catalog, FOO), put(&catalog, WRITE, json!([])));
        assert!(answers.0.is_ok() && answers.1.is_ok() && answers.2.is_ok(), "{answers:?}");
        assert_eq!(server.response_count("POST", 200), 1, "one logs in for all");
        server.set_faults(&json!({"token": "t2"}));
        assert!(get(&catalog, FOO).await.is_ok());
        assert_eq!(server.response_count("POST", 200), 2);
        std::fs::write(file.path(), entry.to_string().replace("love", "hate")).unwrap();
        server.set_faults(&json!({"token": "t3"}));
        let Err(error @ RequestError::Unauthorized(_)) = get(&catalog, FOO).await else { panic!() };
        let text = error.to_string();
        assert!(text.contains("the login with 401") && !text.contains("lace"), "{text}");
    });
}

#[test]
fn nothing_is_sent_without_the_configured_credentials() {
    let server = Ermrest::start(&[]);
    let (catalog, spec) = with(endpoint(&server.url()), Source::file("/none/credential.json"));
    TestTree::run(spec, async |_tree| {
        let Err(error @ RequestError::Unauthorized(_)) = get(&catalog, FOO).await else { panic!() };
        let text = error.to_string();
        assert!(text.starts_with("/none/credential.json: it is not there"), "{text}");
    });
    assert!(server.requests().is_empty());
}
