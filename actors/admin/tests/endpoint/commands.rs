//! `POST /v1/actors/{path}/{verb}`.

use orchestrator_observe::EventKind;
use serde_json::json;

use crate::site::{self, Site, post};

async fn post_ok(site: &Site, path: &str, body: &str) -> serde_json::Value {
    let reply = site.post(path, body).await;
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    reply.json()
}

#[test]
fn every_command_returns_the_state_before_and_after() {
    site::run(|site| async move {
        let steps = [
            ("pause", "running", "paused"),
            ("resume", "paused", "running"),
            ("stop", "running", "stopped"),
            ("start", "stopped", "running"),
            ("restart", "running", "running"),
        ];
        for (verb, before, after) in steps {
            let answer = post_ok(&site, &format!("/v1/actors/demo/source/{verb}"), "").await;
            let expected =
                json!({ "path": "test/demo/source", "verb": verb, "before": before, "after": after });
            assert_eq!(answer, expected);
        }
        assert_eq!(site.tree.child("demo/source").unwrap().incarnation(), 3);
    });
}

#[test]
fn caller_and_reason_are_recorded() {
    site::run(|site| async move {
        post_ok(&site, "/v1/actors/demo/source/restart", r#"{"reason": " new\ndisk "}"#).await;
        let request = post("/v1/actors/demo/source/pause", r#"{"reason": "flood"}"#);
        assert_eq!(site.send_unix(&request).await.status, 200);
        let commanded = |event: orchestrator_observe::Event| match event.kind {
            EventKind::Commanded { verb, by, reason, outcome } => Some([verb, by, reason, outcome]),
            _ => None,
        };
        let seen: Vec<_> = site.tree.events(0).into_iter().filter_map(commanded).collect();
        let [restart, pause] = seen.as_slice() else { panic!("{seen:?}") };
        assert_eq!([&restart[0], &restart[2], &restart[3]], ["restart", r"new\ndisk", "ok"]);
        assert!(restart[1].starts_with("127.0.0.1:") && restart[1].ends_with(" over tcp"), "{restart:?}");
        assert!(pause[1].starts_with("uid ") && pause[1].contains("over the admin socket"), "{pause:?}");
    });
}

#[test]
fn unknown_children_and_verbs_are_404() {
    site::run(|site| async move {
        let (status, message) = site.post("/v1/actors/demo/missing/stop", "").await.error();
        assert_eq!(status, 404);
        assert!(message.contains("there is no child"), "{message}");
        let (status, message) = site.post("/v1/actors/demo/store/dance", "").await.error();
        assert_eq!(status, 404);
        assert!(message.contains("restart, stop, start, pause, resume"), "{message}");
        for path in ["demo/../demo/source", "../demo/source", "%2e%2e"] {
            assert_eq!(site.post(&format!("/v1/actors/{path}/stop"), "").await.error().0, 404, "{path}");
        }
        assert_eq!(site.tree.child("demo/source").unwrap().incarnation(), 1);
    });
}

#[test]
fn impossible_commands_are_409_with_a_reason() {
    site::run(|site| async move {
        let cases = [
            ("demo/store/pause", "cannot be paused"),
            ("demo/pause", "below it these can: test/demo/source"),
            ("demo/store/start", "is running already"),
            ("test/stop", "would stop this endpoint"),
            ("test/restart", "the root cannot be commanded"),
            ("admin/stop", "would stop this endpoint"),
        ];
        for (path, words) in cases {
            let (status, message) = site.post(&format!("/v1/actors/{path}"), "{}").await.error();
            assert_eq!(status, 409, "{path}: {message}");
            assert!(message.contains(words), "{path}: {message}");
        }
    });
}

#[test]
fn invalid_bodies_are_400() {
    site::run(|site| async move {
        let long = format!(r#"{{"reason": "{}"}}"#, "x".repeat(600));
        for body in
            ["reason", r#"{"why": "x"}"#, r#"{"reason": 1}"#, "[]", r#"["x"]"#, "null", "7", long.as_str()]
        {
            let (status, message) = site.post("/v1/actors/demo/source/stop", body).await.error();
            assert_eq!(status, 400, "{body}: {message}");
        }
        assert_eq!(site.tree.child("demo/source").unwrap().state().name(), "running");
    });
}

#[test]
fn the_endpoint_responds_before_it_restarts_itself() {
    site::run(|site| async move {
        let seq = site.tree.event_log().newest();
        let reply = site.post("/v1/actors/admin/restart", r#"{"reason": "x"}"#).await;
        assert_eq!(reply.status, 202, "{reply:?}");
        let started = |event: &orchestrator_observe::Event| {
            event.path == "test/admin" && event.kind == EventKind::Started { incarnation: 2 }
        };
        orchestrator_supervise::testing::event_after(&site.tree, seq, "started again", started).await;
        assert_eq!(site.get("/v1/tree").await.status, 200, "the port is the same");
        assert_eq!(site.send_unix("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.status, 200);
        assert_eq!(site.tree.child("admin").unwrap().last_exit().unwrap().kind, "shutdown");
    });
}
