//! `GET /v1/history` and `GET /v1/tree?at=..`.

use orchestrator_supervise::{Command, Origin};
use serde_json::{Value, json};

use crate::site::{self, Site};

/// Polls until the response has `samples` samples.
async fn with_samples(site: &Site, query: &str, samples: usize) -> Value {
    let answer = site::wait_for("a sample", async || {
        let reply = site.get(&format!("/v1/history?{query}")).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        Some(reply.json()).filter(|answer| answer["at_ms"].as_array().unwrap().len() >= samples)
    });
    answer.await
}

#[test]
fn history_returns_metrics_as_columns() {
    site::run(|site| async move {
        let answer = with_samples(&site, "path=demo/store&metric=child_state,hand_outs", 1).await;
        assert_eq!((&answer["path"], &answer["step_ms"]), (&json!("test/demo/store"), &json!(5_000)));
        let series = answer["series"].as_array().unwrap();
        let named = |metric: &str| {
            let found = series.iter().find(|one| one["metric"] == metric);
            found.unwrap_or_else(|| panic!("no {metric} in {answer}"))["values"][0].clone()
        };
        assert_eq!((named("child_state"), named("hand_outs").is_i64()), (json!("running"), true));
        let all = with_samples(&site, "path=demo&below=true&metric=child_restarts", 1).await;
        assert!(all["series"].as_array().unwrap().len() > 3, "{all}");
        let sum = with_samples(&site, "path=demo&sum=true&metric=child_restarts", 1).await;
        assert_eq!(
            sum["series"],
            json!([{ "path": "test/demo", "metric": "child_restarts", "values": [0] }])
        );
        let last = answer["at_ms"][0].as_u64().unwrap();
        let later = site.get(&format!("/v1/history?path=demo&since={}", last + 3_600_000)).await.json();
        assert_eq!(later["at_ms"], json!([]));
        let info = site.get("/v1/info").await.json();
        assert_eq!(info["history"]["limit_bytes"], json!(32 * 1024 * 1024));
        assert!(info["history"]["used_bytes"].as_u64().unwrap() > 0, "{info}");
        assert_eq!(info["caller"]["role"], json!("operator"));
    });
}

#[test]
fn invalid_queries_are_errors_with_a_reason() {
    site::run(|site| async move {
        let cases = [
            ("path=missing", 404, "there is no child"),
            ("since=yesterday", 400, "since=MILLISECONDS"),
            ("colour=red", 400, "metric=NAME"),
            ("sum=true", 400, "states cannot be added"),
            ("sum=true&metric=link_state", 400, "states cannot be added"),
        ];
        for (query, status, text) in cases {
            let (found, message) = site.get(&format!("/v1/history?{query}")).await.error();
            assert_eq!(found, status, "{query}");
            assert!(message.contains(text), "{message}");
        }
        let many = format!("sum=true&metric={}", "sent,".repeat(513));
        let (status, message) = site.get(&format!("/v1/history?{many}")).await.error();
        assert_eq!(status, 400);
        assert!(message.contains("513 series, more than 512"), "{message}");
        let (status, message) = site.get("/v1/tree?at=yesterday").await.error();
        assert_eq!(status, 400, "{message}");
        with_samples(&site, "path=demo", 1).await;
        let (status, message) = site.get("/v1/tree?at=1000").await.error();
        assert_eq!(status, 404);
        assert!(message.contains("begins at"), "{message}");
    });
}

#[test]
fn the_tree_of_a_past_time_is_returned() {
    site::run(|site| async move {
        let answer = with_samples(&site, "path=demo/source&metric=child_state", 1).await;
        assert_eq!(answer["series"][0]["values"], json!(["running"]));
        let at = answer["at_ms"][0].as_u64().unwrap();
        site.tree.command("demo/source", Command::Stop, &Origin::default()).await.unwrap();
        assert_eq!(site.get("/v1/tree/demo/source").await.tree().root.state.name(), "stopped");
        let past = site.get(&format!("/v1/tree?at={}", at + 1)).await.tree();
        assert_eq!(past.captured_at_ms, at);
        assert_eq!(past.root.find("test/demo/source").unwrap().state.name(), "running");
        let part = site.get(&format!("/v1/tree/demo/source?at={at}")).await.tree();
        assert_eq!((part.root.path.as_str(), part.root.state.name()), ("test/demo/source", "running"));
    });
}
