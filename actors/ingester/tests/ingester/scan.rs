//! Scans through the whole subsystem with a protocol from outside of the crate, on a real Redis.

use std::sync::atomic::Ordering::SeqCst;

use crate::toy::{Playground, Script};
use orchestrator_ingester::OnGap;
use orchestrator_supervise::{Command, Origin, testing::eventually};
use serde_json::json;

fn frames(numbers: impl IntoIterator<Item = u64>) -> Script {
    Script::Waits(std::iter::once(None).chain(numbers.into_iter().map(Some)).collect())
}

fn kept(_: &mut orchestrator_ingester::IngesterConfig) {}

#[test]
fn events_go_to_their_workers_in_order_with_what_each_is_assigned() {
    Playground::run(&["a", "b"], vec![frames(0..9)], kept, async |play| {
        let (mut w1, mut w2) = (play.worker("w1").await, play.worker("w2").await);
        let mapping = play.begin(&["a", "b", "elsewhere"]).await;
        play.assign(
            mapping,
            &[
                (0, json!({"b": ["w1", "w2"], "a": ["w1", "w2"], "elsewhere": ["w1"]})),
                (1, json!({"a": ["w1"], "b": ["w2"]})),
                (2, json!({"elsewhere": ["w1", "w2"]})),
                // Thrown away, but taken from the stream.
                (3, json!({"a": [], "b": ["w1", "w2"]})),
            ],
        );
        play.assign(mapping, &[(4, json!({"a": ["w2", "w1"]}))]);
        let part = |stream: &str, text: &str| (stream.to_owned(), vec![format!("{stream} {text}")]);
        assert_eq!(w1.event().await, (0, vec![part("a", "start"), part("b", "start")]));
        assert_eq!(w2.event().await, (0, vec![part("a", "start"), part("b", "start")]));
        assert_eq!(w1.event().await, (1, vec![part("a", "0")]));
        assert_eq!(w2.event().await, (1, vec![part("b", "0")]));
        assert_eq!(w1.event().await, (3, vec![part("b", "1")]));
        assert_eq!(w2.event().await, (3, vec![part("b", "1")]));
        assert_eq!(w1.event().await, (4, vec![part("a", "2")]));
        assert_eq!(w2.event().await, (4, vec![part("a", "2")]));
        play.finish(mapping).await;
        eventually("sources hear of the end", || play.runs.finished.load(SeqCst) == 2).await;
        // The key is published after the end is answered.
        let counted = || play.presence().is_some_and(|presence| presence["processed_events"] == 4);
        eventually("four events to be told", counted).await;
        let presence = play.presence().expect("it is there");
        assert_eq!(presence["streams"], json!(["a", "b"]));
        assert_eq!(presence["connected_workers"].as_object().expect("workers").len(), 2);
    });
}

/// A run is stopped once, whether a mapping, its own end, an error, a panic or the end of everything comes.
#[test]
fn each_run_is_stopped_exactly_once_on_every_way_out() {
    let scripts = vec![frames(0..2), Script::Ends, Script::Fails, Script::Panics, frames([])];
    let runs = Playground::run(&["a"], scripts, kept, async |play| {
        for _ in 0..3 {
            play.begin(&["a"]).await;
        }
        let note =
            |play: &Playground| play.tree.node("ingester/toys/scan/stream_0").and_then(|node| node.note);
        eventually("the error is told", || note(&play).is_some_and(|note| note.text.contains("mend it")))
            .await;
        play.begin(&["a"]).await;
        eventually("a run after the panic", || play.runs.begun.load(SeqCst) == 5).await;
        // Nobody wants the stream.
        play.begin(&[]).await;
        assert_eq!((play.runs.begun.load(SeqCst), play.runs.stopped.load(SeqCst)), (5, 5));
        play.begin(&["a"]).await;
        eventually("the last run", || play.runs.begun.load(SeqCst) == 6).await;
    });
    assert_eq!((runs.begun.load(SeqCst), runs.stopped.load(SeqCst)), (6, 6));
}

#[test]
fn a_lost_frame_is_counted_and_with_align_the_others_stay_with_their_events() {
    for (on_gap, expected) in [
        (OnGap::Count, ["a start", "a 0", "a 3", "a 4", "a 5"]),
        (OnGap::Align, ["a start", "a 0", "", "", "a 3"]),
    ] {
        let set = |config: &mut orchestrator_ingester::IngesterConfig| config.on_gap = on_gap;
        Playground::run(&["a"], vec![frames([0, 3, 4, 5])], set, async |play| {
            let mut worker = play.worker("w").await;
            let mapping = play.begin(&["a"]).await;
            play.assign(mapping, &[0, 1, 2, 3, 4].map(|event| (event, json!({"a": ["w"]}))));
            for (event, text) in expected.into_iter().enumerate() {
                assert_eq!(worker.single().await, (event as u64, text.to_owned()));
            }
            let missing = || {
                play.presence()
                    .map(|presence| presence["orchestrator"]["streams"]["a"]["missing_frames"].clone())
            };
            eventually("it is published", || missing() == Some(json!(2))).await;
        });
    }
}

/// Which events have left is not known after a crash: no frame goes to a wrong event, and the next mapping is whole.
#[test]
fn a_scan_that_is_interrupted_sends_nothing_wrong_and_the_next_one_is_whole() {
    Playground::run(&["a"], vec![frames(0..50)], kept, async |play| {
        let mut worker = play.worker("w").await;
        let mapping = play.begin(&["a"]).await;
        play.assign(mapping, &[(0, json!({"a": ["w"]}))]);
        assert_eq!(worker.single().await, (0, "a start".to_owned()));
        let scan = "ingester/toys/scan";
        play.tree.command(scan, Command::Restart, &Origin::default()).await.expect("a restart");
        play.assign(mapping, &[(1, json!({"a": ["w"]}))]);
        let note = || play.tree.node("ingester/toys/scan/work").and_then(|node| node.note);
        eventually("it is told", || note().is_some_and(|note| note.text.contains("set a new mapping"))).await;
        let mapping = play.begin(&["a"]).await;
        play.assign(mapping, &[(0, json!({"a": ["w"]})), (1, json!({"a": ["w"]}))]);
        // The connection that had got events of the interrupted scan was reset.
        let mut worker = play.worker("w").await;
        assert_eq!(worker.single().await, (0, "a start".to_owned()));
        assert_eq!(worker.single().await, (1, "a 0".to_owned()));
    });
}
