//! Scans through the whole subsystem with a protocol from outside the crate, on a real Redis.

use std::sync::atomic::Ordering::SeqCst;

use orchestrator_harness::Controller;
use orchestrator_supervise::{Command, Origin, State, testing::eventually};
use serde_json::json;
use uuid::Uuid;

use crate::{
    OnGap,
    tests::toy::{Fixture, Script},
};

fn frames(numbers: impl IntoIterator<Item = u64>) -> Script {
    Script::Waits(std::iter::once(None).chain(numbers.into_iter().map(Some)).collect())
}

fn kept(_: &mut crate::IngesterConfig) {}

#[test]
fn events_go_in_order_to_their_assigned_workers() {
    Fixture::run(&["a", "b"], vec![frames(0..9)], kept, async |fixture| {
        let (mut w1, mut w2) = (fixture.worker("w1").await, fixture.worker("w2").await);
        let mapping = fixture.begin(&["a", "b", "elsewhere"]).await;
        fixture.assign(
            mapping,
            &[
                (0, json!({"b": ["w1", "w2"], "a": ["w1", "w2"], "elsewhere": ["w1"]})),
                (1, json!({"a": ["w1"], "b": ["w2"]})),
                (2, json!({"elsewhere": ["w1", "w2"]})),
                // The item is dropped, but taken from the stream.
                (3, json!({"a": [], "b": ["w1", "w2"]})),
            ],
        );
        fixture.assign(mapping, &[(4, json!({"a": ["w2", "w1"]}))]);
        let part = |stream: &str, text: &str| (stream.to_owned(), vec![format!("{stream} {text}")]);
        assert_eq!(w1.event().await, (0, vec![part("a", "start"), part("b", "start")]));
        assert_eq!(w2.event().await, (0, vec![part("a", "start"), part("b", "start")]));
        assert_eq!(w1.event().await, (1, vec![part("a", "0")]));
        assert_eq!(w2.event().await, (1, vec![part("b", "0")]));
        assert_eq!(w1.event().await, (3, vec![part("b", "1")]));
        assert_eq!(w2.event().await, (3, vec![part("b", "1")]));
        assert_eq!(w1.event().await, (4, vec![part("a", "2")]));
        assert_eq!(w2.event().await, (4, vec![part("a", "2")]));
        fixture.finish(mapping).await;
        eventually("sources hear of the end", || fixture.runs.finished.load(SeqCst) == 2).await;
        // The key is published after `finished` is answered.
        let counted =
            || fixture.ingester_state().is_some_and(|ingester_state| ingester_state["processed_events"] == 4);
        eventually("four events to be told", counted).await;
        let ingester_state = fixture.ingester_state().expect("it is there");
        assert_eq!(ingester_state["streams"], json!(["a", "b"]));
        assert_eq!(ingester_state["connected_workers"].as_object().expect("workers").len(), 2);
    });
}

/// Events that are sent at once have times of their own, to the microsecond.
#[test]
fn each_event_has_the_time_at_which_it_was_complete() {
    const EVENTS: u64 = 200;
    Fixture::run(&["a"], vec![frames(1..EVENTS)], kept, async |fixture| {
        let mut worker = fixture.worker("w").await;
        let mapping = fixture.begin(&["a"]).await;
        let all: Vec<_> = (0..EVENTS).map(|event| (event, json!({"a": ["w"]}))).collect();
        fixture.assign(mapping, &all);
        let mut times = Vec::new();
        for _ in 0..EVENTS {
            times.push(worker.created_at().await);
        }
        assert!(times.is_sorted(), "{times:?}");
        times.dedup();
        // An event takes over a microsecond.
        assert!(times.len() as u64 > EVENTS / 2, "{} times: {times:?}", times.len());
        fixture.finish(mapping).await;
    });
}

/// Covers a new mapping, the source's end, an error, a panic and a shutdown.
#[test]
fn each_run_is_stopped_exactly_once_however_it_ends() {
    let scripts = vec![frames(0..2), Script::Ends, Script::Fails, Script::Panics, frames([])];
    let runs = Fixture::run(&["a"], scripts, kept, async |fixture| {
        for _ in 0..3 {
            fixture.begin(&["a"]).await;
        }
        let note =
            |fixture: &Fixture| fixture.tree.node("ingester/toys/scan/stream_0").and_then(|node| node.note);
        eventually("the error is told", || note(&fixture).is_some_and(|note| note.text.contains("mend it")))
            .await;
        fixture.begin(&["a"]).await;
        eventually("a run after the panic", || fixture.runs.begun.load(SeqCst) == 5).await;
        // A mapping without the stream.
        fixture.begin(&[]).await;
        assert_eq!((fixture.runs.begun.load(SeqCst), fixture.runs.stopped.load(SeqCst)), (5, 5));
        // A stream that still starts would begin a run of the next mapping, and stop it for the restart.
        let scan = || fixture.tree.node("ingester/toys/scan");
        eventually("the scan is up", || scan().is_some_and(|scan| scan.state == State::Running)).await;
        fixture.begin(&["a"]).await;
        eventually("the last run", || fixture.runs.begun.load(SeqCst) == 6).await;
    });
    assert_eq!((runs.begun.load(SeqCst), runs.stopped.load(SeqCst)), (6, 6));
}

#[test]
fn a_lost_frame_is_counted_and_with_align_the_others_keep_their_events() {
    for (on_gap, expected) in [
        (OnGap::Count, ["a start", "a 0", "a 3", "a 4", "a 5"]),
        (OnGap::Align, ["a start", "a 0", "", "", "a 3"]),
    ] {
        let set = |config: &mut crate::IngesterConfig| config.on_gap = on_gap;
        Fixture::run(&["a"], vec![frames([0, 3, 4, 5])], set, async |fixture| {
            let mut worker = fixture.worker("w").await;
            let mapping = fixture.begin(&["a"]).await;
            fixture.assign(mapping, &[0, 1, 2, 3, 4].map(|event| (event, json!({"a": ["w"]}))));
            for (event, text) in expected.into_iter().enumerate() {
                assert_eq!(worker.single().await, (event as u64, text.to_owned()));
            }
            let missing = || {
                fixture.ingester_state().map(|ingester_state| {
                    ingester_state["orchestrator"]["streams"]["a"]["missing_frames"].clone()
                })
            };
            eventually("it is published", || missing() == Some(json!(2))).await;
        });
    }
}

/// Items without an event fill the backlog. They are dropped at the end of the mapping, which the source
/// hears of (CONTRACT IO13).
#[test]
fn a_full_backlog_does_not_delay_the_end_of_a_mapping() {
    let count = 40_000;
    Fixture::run(&["a"], vec![frames(0..count)], kept, async |fixture| {
        let items = || {
            let stream = fixture.tree.node("ingester/toys/scan/stream_0");
            let metrics = stream.into_iter().flat_map(|stream| stream.metrics);
            metrics.filter(|metric| metric.name == "items").map(|metric| metric.value).sum::<i64>()
        };
        let mapping = fixture.begin(&["a"]).await;
        // An item counts 128 bytes and its length in a backlog of 1 MiB.
        eventually("the backlog is full", || items() > 7_900).await;
        assert!(items() < count as i64, "a full backlog stops the source");
        fixture.finish(mapping).await;
        eventually("the source hears of the end", || fixture.runs.finished.load(SeqCst) == 1).await;
        eventually("its other items are dropped", || items() == count as i64 + 1).await;
    });
}

/// The actor is restarted with parameters and an answer to `finished` that Redis has refused.
#[test]
fn a_restart_of_the_ingester_keeps_its_parameters_and_pending_answers() {
    Fixture::run(&["a"], vec![frames([])], kept, async |fixture| {
        let (mapping, version) = (Uuid::new_v4(), Uuid::new_v4());
        let ready = format!("dranspose:ready:{mapping}");
        fixture.redis.command(&["SET", &ready, "not a stream"]);
        fixture.redis.command(&["SET", &format!("dranspose:parameters:x:{version}"), "7"]);
        let mut update = Controller::update_json(&mapping.to_string(), &["a"], true);
        update["parameters_version"] = json!({ "x": version });
        fixture.controller().publish_update(&update);
        fixture.taken(mapping).await;
        let hash = || fixture.ingester_state().map(|state| state["parameters_hash"].clone());
        let before = hash();
        let child = "ingester/toys/ingester";
        fixture.tree.command(child, Command::Restart, &Origin::default()).await.expect("a restart");
        eventually("a second incarnation", || {
            fixture.tree.node(child).is_some_and(|node| node.incarnation == 2 && node.state == State::Running)
        })
        .await;
        eventually("the same parameters", || hash() == before).await;
        fixture.redis.command(&["DEL", &ready]);
        let answered = || fixture.controller().is_finished(&mapping.to_string());
        eventually("finished is answered", answered).await;
    });
}

/// Events between the items belong to other ingesters. An item whose event was passed is dropped.
#[test]
fn a_source_that_numbers_events_sends_its_own_only() {
    let script = Script::Waits([1, 2, 5, 4, 5, 7, 9].map(Some).into());
    let set = |config: &mut crate::IngesterConfig| {
        "numbered_toy".clone_into(&mut config.stream[0].source);
    };
    Fixture::run(&["a"], vec![script], set, async |fixture| {
        let mut worker = fixture.worker("w").await;
        let mapping = fixture.begin(&["a"]).await;
        let all = [0, 1, 2, 3, 4, 5, 6, 7].map(|event| (event, json!({"a": ["w"]})));
        fixture.assign(mapping, &all[..3]);
        assert_eq!(worker.single().await, (1, "a 1".to_owned()));
        assert_eq!(worker.single().await, (2, "a 2".to_owned()));
        fixture.assign(mapping, &all[3..]);
        assert_eq!(worker.single().await, (5, "a 5".to_owned()));
        assert_eq!(worker.single().await, (7, "a 7".to_owned()));
        // Event 9 is not assigned to this stream.
        fixture.assign(mapping, &[(10, json!({"a": ["w"]})), (11, json!({"a": ["w"]}))]);
        let late = || {
            let work = fixture.tree.node("ingester/toys/scan/work");
            work.and_then(|work| {
                work.metrics.iter().find(|metric| metric.name == "late_items").map(|metric| metric.value)
            })
        };
        eventually("late items are counted", || late() == Some(3)).await;
        fixture.finish(mapping).await;
    });
}

/// After a crash the sent events are unknown: no frame goes to a wrong event, and the next mapping
/// is complete.
#[test]
fn an_interrupted_scan_sends_no_wrong_event_and_the_next_one_is_complete() {
    Fixture::run(&["a"], vec![frames(0..50)], kept, async |fixture| {
        let mut worker = fixture.worker("w").await;
        let mapping = fixture.begin(&["a"]).await;
        fixture.assign(mapping, &[(0, json!({"a": ["w"]}))]);
        assert_eq!(worker.single().await, (0, "a start".to_owned()));
        let scan = "ingester/toys/scan";
        fixture.tree.command(scan, Command::Restart, &Origin::default()).await.expect("a restart");
        fixture.assign(mapping, &[(1, json!({"a": ["w"]}))]);
        let note = || fixture.tree.node("ingester/toys/scan/work").and_then(|node| node.note);
        eventually("it is told", || note().is_some_and(|note| note.text.contains("set a new mapping"))).await;
        let mapping = fixture.begin(&["a"]).await;
        fixture.assign(mapping, &[(0, json!({"a": ["w"]})), (1, json!({"a": ["w"]}))]);
        // The connection that had received events of the interrupted scan was reset.
        let mut worker = fixture.worker("w").await;
        assert_eq!(worker.single().await, (0, "a start".to_owned()));
        assert_eq!(worker.single().await, (1, "a 0".to_owned()));
    });
}
