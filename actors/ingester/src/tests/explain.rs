//! Explanations of mappings and events by the console of an ingester.

use std::time::{Duration, Instant};

use orchestrator_subsystem::{Console, Explained, Item, Progress};
use orchestrator_supervise::{Command, Origin};
use serde_json::{Value, json};
use tokio::time::interval;
use uuid::Uuid;

use crate::{
    IngesterConfig,
    tests::toy::{Fixture, Script},
};

fn frames(numbers: impl IntoIterator<Item = u64>) -> Script {
    Script::Waits(std::iter::once(None).chain(numbers.into_iter().map(Some)).collect())
}

fn kept(_: &mut IngesterConfig) {}

/// Events `first` to `last`, all for `worker`.
fn events(first: u64, last: u64, worker: &str) -> Vec<(u64, Value)> {
    (first..=last).map(|event| (event, json!({"a": [worker]}))).collect()
}

async fn explain(fixture: &Fixture, item: &str) -> Explained {
    let verb = Console::verb(&fixture.tree, "ingester/toys/ingester", "explain").expect("the verb");
    let answer = verb.call(json!({ "item": item })).await.expect("an answer");
    serde_json::from_value(answer.expect("no error")).expect("the answer's type")
}

/// The only item of this name, once `is` accepts it.
async fn item(fixture: &Fixture, name: impl ToString, is: impl Fn(&Item) -> bool) -> Item {
    let (name, give_up) = (name.to_string(), Instant::now() + Duration::from_secs(20));
    let mut tick = interval(Duration::from_millis(2));
    loop {
        let mut found = explain(fixture, &name).await.found;
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        if is(&found[0]) {
            return found.remove(0);
        }
        assert!(Instant::now() < give_up, "gave up waiting for another state of {found:?}");
        tick.tick().await;
    }
}

fn kind(item: &Item) -> &str {
    item.causes.first().map_or("", |cause| &cause.kind)
}

/// Path of the child, below the root.
fn path(item: &Item) -> &str {
    item.causes.iter().for_each(|cause| assert!(cause.path.starts_with("test/"), "{cause:?}"));
    item.path.strip_prefix("test/").expect("a full path")
}

#[test]
fn a_mapping_waits_for_its_start_then_for_events_and_ends_whole() {
    let set = |config: &mut IngesterConfig| config.dump_path = Some("/dev/null".to_owned());
    let scripts = vec![frames(0..3), Script::Waits(Vec::new())];
    Fixture::run(&["a", "b"], scripts, set, async |fixture| {
        let mut worker = fixture.worker("w").await;
        let mapping = fixture.begin(&["a"]).await;
        let waits = item(&fixture, mapping, |item| kind(item) == "waits_for_assignments").await;
        assert_eq!((waits.progress, path(&waits)), (Progress::Waits, "ingester/toys/scan/assign"));
        assert!(waits.text.contains("of which no entry was read"), "{waits:?}");
        let event = item(&fixture, format!("{mapping}#0"), |_| true).await;
        assert!(event.text.starts_with("is not assigned yet: none is in `dranspose:assigned:"), "{event:?}");
        fixture.assign(mapping, &events(0, 3, "w"));
        for _ in 0..4 {
            worker.event().await;
        }
        let sent =
            item(&fixture, mapping, |item| item.text.contains("4 of 4 assigned events are queued or sent"))
                .await;
        assert_eq!(sent.name, format!("ingester/toys/{mapping}"));
        let sent =
            item(&fixture, format!("toys/{mapping}#2"), |item| item.text.starts_with("was sent")).await;
        assert_eq!(sent.text, "was sent to worker w, unless it was assigned to nobody");
        assert_eq!((sent.progress, &*sent.name), (Progress::Ended, &*format!("ingester/toys/{mapping}#2")));
        // Its entry is not empty.
        fixture.assign(mapping, &[(4, json!({"elsewhere": ["w"]}))]);
        fixture.finish(mapping).await;
        let whole = item(&fixture, mapping, |item| item.progress == Progress::Ended).await;
        assert!(whole.text.starts_with("ended whole, finished by the controller: 4 of 4 "), "{whole:?}");
        assert!(whole.evidence.contains(&"dump file /dev/null".to_owned()), "{whole:?}");
        let next = fixture.begin(&["a"]).await;
        fixture.assign(next, &events(0, 0, "w"));
        let start = item(&fixture, next, |item| kind(item) == "waits_for_start").await;
        assert!(start.text.starts_with("event 0 waits for the start message of stream a"), "{start:?}");
        assert_eq!((start.progress, path(&start)), (Progress::Waits, "ingester/toys/scan/stream_0"));
        let event = item(&fixture, format!("{next}#0"), |item| kind(item) == "waits_for_start").await;
        assert!(
            event.text.starts_with("is assigned to w and is sent next: event 0 waits for the start message"),
            "{event:?}"
        );
        // The former one is known by a beginning of its UUID.
        let former = item(&fixture, &mapping.to_string()[..13], |_| true).await;
        assert!(former.text.starts_with("ended whole"), "{former:?}");
        let event = item(&fixture, format!("{mapping}#9"), |_| true).await;
        assert_eq!(event.text, "was not sent: the mapping ended after event 3");
    });
}

#[test]
fn a_worker_that_takes_nothing_and_its_events_are_named() {
    let set = |config: &mut IngesterConfig| {
        config.egress_bytes_per_peer = 4 << 10;
        config.spill_bytes = 32 << 10;
    };
    Fixture::run(&["a"], vec![frames(0..2_000)], set, async |fixture| {
        let mapping = fixture.begin(&["a"]).await;
        fixture.assign(mapping, &events(0, 19, "gone"));
        let on_disk = item(&fixture, format!("{mapping}#15"), |item| item.text.contains("on disk for")).await;
        assert_eq!((on_disk.progress, kind(&on_disk)), (Progress::Waits, "worker_queue"), "{on_disk:?}");
        assert_eq!(path(&on_disk), "ingester/toys/egress");
        let memory = item(&fixture, format!("{mapping}#1"), |_| true).await;
        assert_eq!(memory.text, "waits in memory for worker gone, with 1 before it");
        assert_eq!(memory.causes[0].text, "worker gone is not connected");
        let away = item(&fixture, mapping, |item| item.text.contains("not connected")).await;
        assert_eq!((away.progress, path(&away)), (Progress::Waits, "ingester/toys/egress"));
        assert!(away.text.starts_with("all assigned events are queued, and worker gone is not connected: "));
        assert!(
            away.evidence[0].starts_with("the slowest worker is gone: 20 events wait for it, "),
            "{away:?}"
        );
        fixture.assign(mapping, &events(20, 1_500, "gone"));
        let full = item(&fixture, mapping, |item| kind(item) == "queue_full").await;
        assert!(full.text.contains("wait for room in the queue of worker gone; "), "{full:?}");
        let refused: u64 =
            full.text.split(' ').nth(1).and_then(|event| event.parse().ok()).expect("an event");
        let event = item(&fixture, format!("{mapping}#{refused}"), |_| true).await;
        assert_eq!((&*event.text, kind(&event)), ("waits for room in the queue of gone", "queue_full"));
        let event = item(&fixture, format!("{mapping}#{}", refused + 2), |_| true).await;
        assert!(event.text.starts_with("is assigned to gone and has 1 before it: event "), "{event:?}");
    });
}

#[test]
fn gaps_and_events_of_nobody_are_told() {
    Fixture::run(&["a"], vec![frames([0, 3])], kept, async |fixture| {
        let mut worker = fixture.worker("w").await;
        let mapping = fixture.begin(&["a"]).await;
        fixture.assign(mapping, &events(0, 3, "w"));
        fixture.assign(mapping, &[(4, json!({"a": []})), (5, json!({"a": ["w", "v"]}))]);
        for _ in 0..3 {
            worker.event().await;
        }
        let frame = item(&fixture, mapping, |item| kind(item) == "waits_for_frame").await;
        assert!(frame.text.starts_with("event 3 waits for a frame of stream a"), "{frame:?}");
        let missing = "stream a has sent 3 items; 2 frames are missing in its numbers (gaps: 1)";
        assert_eq!((frame.causes[0].routine, &*frame.causes[0].evidence[0]), (false, missing));
        let of = |event: u64| format!("{mapping}#{event}");
        let event = item(&fixture, of(3), |item| kind(item) == "waits_for_frame").await;
        assert!(
            event
                .text
                .starts_with("is assigned to w and is sent next: event 3 waits for a frame of stream a"),
            "{event:?}"
        );
        let event = item(&fixture, of(4), |_| true).await;
        assert_eq!(event.text, "is assigned to no worker: its frames are dropped once they arrive");
        let event = item(&fixture, of(5), |_| true).await;
        assert!(
            event.text.starts_with("is assigned to v, w and has 2 before it: event 3 waits "),
            "{event:?}"
        );
        fixture.finish(mapping).await;
        let ended = item(&fixture, mapping, |item| item.progress == Progress::Ended).await;
        let text = format!(
            "ended with gaps, finished by the controller: 3 of 6 assigned events were sent; {missing}"
        );
        assert_eq!(ended.text, text);
        let event = item(&fixture, of(3), |_| true).await;
        assert_eq!(event.progress, Progress::Ended, "{event:?}");
    });
}

#[test]
fn an_interrupted_mapping_has_its_reason_also_after_the_next_one_began() {
    Fixture::run(&["a"], vec![frames(0..50)], kept, async |fixture| {
        let mut worker = fixture.worker("w").await;
        let mapping = fixture.begin(&["a"]).await;
        fixture.assign(mapping, &events(0, 0, "w"));
        worker.event().await;
        let origin = Origin::default();
        let child = "ingester/toys/scan/assign";
        fixture.tree.command(child, Command::Panic, &origin).await.expect("it panics");
        let interrupted = item(&fixture, mapping, |item| kind(item) == "interrupted_scan").await;
        let text = "was interrupted, since assign ended: ";
        assert!(interrupted.text.starts_with(text), "{interrupted:?}");
        assert!(interrupted.text.contains("1 of 1 assigned events were sent, "), "{interrupted:?}");
        let event = item(&fixture, format!("{mapping}#0"), |_| true).await;
        assert!(event.text.starts_with("is no longer known: the scan was interrupted"), "{event:?}");
        fixture.begin(&["a"]).await;
        let former = item(&fixture, mapping, |_| true).await;
        assert!(former.text.starts_with(text), "{former:?}");
        assert!(former.text.ends_with("replaced by a new mapping before the controller finished it"));
        assert_eq!((former.progress, former.continues_as.len()), (Progress::Ended, 0));
    });
}

#[test]
fn an_unknown_mapping_has_those_that_resemble_it() {
    Fixture::run(&["a"], vec![frames([])], kept, async |fixture| {
        let mapping = fixture.begin(&["a"]).await.to_string();
        let last = if mapping.ends_with('0') { "1" } else { "0" };
        let unknown = explain(&fixture, &format!("toys/{}{last}", &mapping[..35])).await;
        assert!(unknown.found.is_empty());
        assert_eq!(unknown.nearest, [format!("toys/{mapping}")]);
        assert_eq!(unknown.searched, "the last mappings of ingester toys since the start of the process: 1");
        for other in [format!("other/{mapping}"), "/data/image.h5".to_owned(), format!("{mapping}#x")] {
            assert_eq!(explain(&fixture, &other).await, Explained::default(), "{other}");
        }
        let found = explain(&fixture, &Uuid::new_v4().to_string()).await.found;
        assert!(found.is_empty());
    });
}
