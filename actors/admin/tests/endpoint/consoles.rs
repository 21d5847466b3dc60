//! `POST /v1/consoles/{path}/{verb}`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::site;

#[test]
fn arguments_and_responses_are_passed_on() {
    site::run(|site| async move {
        let reply = site.post("/v1/consoles/demo/store/echo", r#"{"n": [1, null, "é"]}"#).await;
        assert_eq!((reply.status, reply.json()), (200, json!({ "echo": { "n": [1, null, "é"] } })));
        let reply = site.post("/v1/consoles/test/demo/store/echo", "").await;
        assert_eq!((reply.status, reply.json()), (200, json!({ "echo": {} })));
    });
}

#[test]
fn each_verb_has_its_schemas_in_the_openapi_document() {
    site::run(|site| async move {
        let document = site.get("/openapi.json").await.json();
        let verb =
            |name: &str| document["paths"][format!("/v1/consoles/test/demo/store/{name}")]["post"].clone();
        for (name, effect) in [("look", "reads"), ("echo", "changes")] {
            let verb = verb(name);
            assert_eq!(verb["x-effect"], effect, "{verb}");
            assert_eq!(verb["requestBody"]["content"]["application/json"]["schema"]["type"], "object");
            assert_eq!(verb["responses"]["200"]["content"]["application/json"]["schema"], json!({}));
        }
    });
}

#[test]
fn each_error_has_its_status() {
    site::run(|site| async move {
        let cases = [
            ("demo/store/dance", "", 404, "this child answers echo"),
            ("demo/source/echo", "", 404, "these have: test/demo/store"),
            ("demo/missing/echo", "", 404, "these have: test/demo/store"),
            ("demo/store/picky", "{}", 400, "`n` is missing"),
            ("demo/store/echo", "{", 400, "send JSON such as"),
            ("demo/store/echo", " [1]", 400, "the body is not a JSON object: send JSON such as"),
            ("demo/store/echo", "null", 400, "the body is not a JSON object"),
            ("demo/store/busy", "", 409, "is draining"),
        ];
        for (path, body, status, words) in cases {
            let (got, message) = site.post(&format!("/v1/consoles/{path}"), body).await.error();
            assert_eq!(got, status, "{path}: {message}");
            assert!(message.contains(words), "{path}: {message}");
        }
    });
}

#[test]
fn a_child_that_does_not_respond_is_504_after_two_seconds() {
    site::run(|site| async move {
        let started = Instant::now();
        let (status, message) = site.post("/v1/consoles/demo/store/hang", "").await.error();
        assert_eq!(status, 504);
        assert!(message.contains("no answer within 2s"), "{message}");
        assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
        site.tree
            .command("demo/store", orchestrator_supervise::Command::Restart, &Default::default())
            .await
            .unwrap();
    });
}

#[test]
fn a_child_that_panics_on_the_request_is_504() {
    site::run(|site| async move {
        let (status, message) = site.post("/v1/consoles/demo/store/panic", "").await.error();
        assert_eq!(status, 504);
        assert!(message.contains("ended"), "{message}");
    });
}
