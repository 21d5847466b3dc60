//! `POST /v1/consoles/{path}/{verb}`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::site;

#[test]
fn arguments_go_in_and_the_childs_answer_comes_out() {
    site::run(|site| async move {
        let reply = site.post("/v1/consoles/demo/store/echo", r#"{"n": [1, null, "é"]}"#).await;
        assert_eq!((reply.status, reply.json()), (200, json!({ "echo": { "n": [1, null, "é"] } })));
        let reply = site.post("/v1/consoles/test/demo/store/echo", "").await;
        assert_eq!((reply.status, reply.json()), (200, json!({ "echo": null })));
    });
}

#[test]
fn each_refusal_has_its_status() {
    site::run(|site| async move {
        let cases = [
            ("demo/store/dance", "", 404, "this child answers echo"),
            ("demo/source/echo", "", 404, "these have: test/demo/store"),
            ("demo/nobody/echo", "", 404, "these have: test/demo/store"),
            ("demo/store/picky", "{}", 400, "`n` is missing"),
            ("demo/store/echo", "{", 400, "send JSON such as"),
            ("demo/store/echo", " [1]", 400, "the body is not a JSON object: send JSON such as"),
            ("demo/store/echo", "null", 400, "the body is not a JSON object"),
            ("demo/store/busy", "", 409, "it drains"),
        ];
        for (path, body, status, words) in cases {
            let (got, message) = site.post(&format!("/v1/consoles/{path}"), body).await.error();
            assert_eq!(got, status, "{path}: {message}");
            assert!(message.contains(words), "{path}: {message}");
        }
    });
}

#[test]
fn a_child_that_does_not_answer_is_504_within_two_seconds_or_so() {
    site::run(|site| async move {
        let asked = Instant::now();
        let (status, message) = site.post("/v1/consoles/demo/store/hang", "").await.error();
        assert_eq!(status, 504);
        assert!(message.contains("no answer within 2s"), "{message}");
        assert!(asked.elapsed() < Duration::from_secs(6), "{:?}", asked.elapsed());
        site.tree
            .command("demo/store", orchestrator_supervise::Command::Restart, &Default::default())
            .await
            .unwrap();
    });
}

#[test]
fn a_child_that_dies_over_the_question_is_504_too() {
    site::run(|site| async move {
        let (status, message) = site.post("/v1/consoles/demo/store/panic", "").await.error();
        assert_eq!(status, 504);
        assert!(message.contains("ended"), "{message}");
    });
}
