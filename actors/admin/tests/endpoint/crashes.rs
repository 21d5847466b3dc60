//! `GET /v1/crashes`: reports of panics with the events and samples before them.

use orchestrator_subsystem::{
    Console, ConsoleCallError,
    wire::{CrashReport, Crashes},
};
use orchestrator_supervise::{AskError, State, testing::eventually};
use serde_json::json;

use crate::site::{self, Site};

async fn crashes(site: &Site, path: &str) -> Vec<CrashReport> {
    let reply = site.get(path).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let crashes: Crashes =
        serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{error}: {reply:?}"));
    assert_eq!(crashes.left_out, 0);
    crashes.crashes
}

/// Makes the store panic in its handler, and waits for its next incarnation.
pub(crate) async fn panic_in_handler(site: &Site) {
    let before = site.tree.node("demo/store").unwrap().incarnation;
    let verb = Console::verb(&site.tree, "demo/store", "panic").unwrap();
    let asked = verb.call(json!({ "secret": "content" })).await;
    // The first panic of a process reads its debug information, which takes seconds on a busy machine.
    let unanswered = matches!(asked, Err(ConsoleCallError::Ask(AskError::Lost | AskError::TimedOut(_))));
    assert!(unanswered, "{asked:?}");
    eventually("the store runs again", || {
        let store = site.tree.node("demo/store").unwrap();
        store.incarnation > before && store.state == State::Running
    })
    .await;
}

#[test]
fn a_panic_is_reported_with_position_message_type_events_and_samples() {
    site::run(|site| async move {
        assert_eq!(crashes(&site, "/v1/crashes").await, []);
        // A sample of the minute before.
        site::wait_for("a sample", async || {
            let history = site.get("/v1/history?path=demo/store").await.json();
            (history["at_ms"] != json!([])).then_some(())
        })
        .await;
        panic_in_handler(&site).await;
        let all = crashes(&site, "/v1/crashes").await;
        let [report] = &all[..] else { panic!("{all:#?}") };
        assert_eq!((report.path.as_str(), report.incarnation), ("test/demo/store", 1));
        assert_eq!((report.kind.as_str(), report.message.as_str()), ("panicked", "requested by the test"));
        assert_eq!(report.in_progress.as_deref(), Some("Verb"));
        assert!(report.location.as_ref().is_some_and(|at| at.contains("site.rs:")), "{report:#?}");
        assert!(report.backtrace[0].contains("site.rs:"), "{:#?}", report.backtrace);
        let kinds: Vec<_> = report.events.iter().map(|event| event.kind.name()).collect();
        assert!(kinds.contains(&"link_up") && kinds.contains(&"started"), "{kinds:?}");
        let samples = report.samples.as_ref().expect("samples");
        assert!(!samples.at_ms.is_empty() && samples.at_ms.iter().all(|at| *at <= report.at_ms));
        let jobs = samples.series.iter().find(|series| series.metric == "hand_outs").expect("a metric");
        assert_eq!(jobs.values.len(), samples.at_ms.len());
        let text = serde_json::to_string(&all).unwrap();
        assert!(!text.contains("content"), "the report has the type of the message only: {text}");
    });
}

#[test]
fn a_branch_has_its_own_crashes_newest_first() {
    site::run(|site| async move {
        for _ in 0..2 {
            panic_in_handler(&site).await;
        }
        for path in ["/v1/crashes/demo", "/v1/crashes/test/demo/store"] {
            let incarnations: Vec<_> =
                crashes(&site, path).await.iter().map(|report| report.incarnation).collect();
            assert_eq!(incarnations, [2, 1], "{path}");
        }
        let reply = site.get("/v1/crashes/demo?limit=1").await;
        let newest: Crashes = serde_json::from_str(&reply.body).unwrap();
        assert_eq!((newest.crashes.len(), newest.crashes[0].incarnation, newest.left_out), (1, 2, 1));
        assert_eq!(crashes(&site, "/v1/crashes/demo/source").await, []);
        for query in ["limit=-1", "limit=x", "last=1"] {
            assert_eq!(site.get(&format!("/v1/crashes?{query}")).await.error().0, 400, "{query}");
        }
        assert_eq!(site.get("/v1/crashes/missing").await.error().0, 404);
        assert_eq!(site.post("/v1/crashes", "{}").await.error().0, 405);
    });
}
