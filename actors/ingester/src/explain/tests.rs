//! State of an ingester and its explanation, for each situation.

use std::time::Duration;

use orchestrator_subsystem::NextChance;
use uuid::Uuid;

use super::*;
use crate::mapping::Mapping;
use crate::sender_state::{AssignedEvent, WaitCondition};

const UUID: &str = "6277a4d0-975c-4dfe-97be-7f6d1d5a5c38";

fn sender(condition: WaitCondition, waited_secs: u64) -> SenderState {
    SenderState {
        mapping: 1,
        condition,
        waited: Duration::from_secs(waited_secs),
        next: None,
        last_assigned: Some(9),
        is_full: false,
        refused: None,
        refused_by: Vec::new(),
        asked: None,
    }
}

/// Ten events are assigned and five are sent, of a stream with six items.
fn snapshot(sender: SenderState) -> Snapshot {
    let mapping = Mapping { uuid: UUID.parse().ok(), active: vec![0], number: 1, ..Mapping::default() };
    let streams = vec![("eiger".to_owned(), [6, 0, 0, 0, 0, 0])];
    let record = Record {
        mapping,
        began_ms: 40_000,
        at_ms: 100_000,
        counts: Counts { sent: 5, assigned: 10, without_frame: 0, streams },
        interrupted: None,
        job: None,
        last_event: Some(4),
        waiting: 0,
    };
    Snapshot {
        names: names(),
        record,
        streams: vec![StreamState { endpoint: "tcp://det:9999".to_owned(), ..StreamState::default() }],
        awaited: None,
        last_entry: Some(("17-0".to_owned(), 98_000)),
        peers: Vec::new(),
        held_up: None,
        sender: Some(sender),
        places: Vec::new(),
    }
}

fn peer(worker: &str, queued_messages: usize) -> PeerState {
    PeerState {
        queued_messages,
        queued_bytes: 100 * queued_messages,
        spilled_bytes: 7,
        ..PeerState::example(worker)
    }
}

fn names() -> Names {
    Names { ingester: "lab".to_owned(), branch: "ingester/lab".to_owned(), redis_cli: "-u redis://r".into() }
}

/// All ten events are sent.
fn ended_mapping() -> Record {
    let Record { mapping, counts, .. } = snapshot(sender(WaitCondition::Events, 0)).record;
    Record {
        mapping: Mapping { finished: true, dump: Some("/data/a.cbors".to_owned()), ..mapping },
        began_ms: 1_000,
        at_ms: 13_300,
        counts: Counts { sent: 10, ..counts },
        interrupted: None,
        job: Some("scans/1".to_owned()),
        last_event: Some(9),
        waiting: 0,
    }
}

/// Progress, path, kinds of the causes, whether the first is routine, and text.
fn outline(item: &Item) -> (Progress, &str, Vec<&str>, bool, &str) {
    let kinds = item.causes.iter().map(|cause| &*cause.kind).collect();
    let routine = item.causes.first().is_some_and(|cause| cause.routine);
    (
        item.progress,
        item.path.strip_prefix("ingester/lab/").expect("in the branch"),
        kinds,
        routine,
        &item.text,
    )
}

#[test]
fn a_mapping_is_named_by_its_uuid_a_beginning_of_it_and_its_ingester() {
    let uuid: Uuid = UUID.parse().expect("a UUID");
    let parse = |item: &str| Question::parse(item, ["lab", "la/b"]);
    for item in [UUID, &UUID.to_uppercase(), "6277a4d0", "6277a4d0-97", "lab/6277a4d0", "la/b/6277a4d0"] {
        let question = parse(item).unwrap_or_else(|| panic!("{item} is a name"));
        assert!(question.matches(uuid) && question.event.is_none(), "{item}");
    }
    assert_eq!(parse(&format!("lab/{UUID}#17")).and_then(|question| question.event), Some(17));
    assert!(!parse("6277a4d1").expect("a name").matches(uuid));
    for item in ["6277a4d", "other/6277a4d0", "6277a4d0#x", "/data/image.h5", "", "6277a4d0#-1", "6277a4dg"] {
        assert_eq!(parse(item), None, "{item}");
    }
    assert_eq!(parse("6277a4d0975c").expect("a name").uuid(), "6277a4d0-975c");
}

#[test]
fn a_mapping_in_progress_has_its_events_and_its_slowest_worker() {
    let mut state = snapshot(sender(WaitCondition::Yield, 0));
    state.peers = vec![peer("w1", 2), peer("w\n2", 12), peer("w3", 0)];
    let item = state.mapping_item();
    let text = "5 of 10 assigned events are queued or sent; the slowest worker is w\\n2: 12 events wait for it, \
        1200 bytes in memory and 7 on disk";
    assert_eq!(outline(&item), (Progress::InProgress, "scan/work", vec![], false, text));
    assert_eq!((&*item.kind, &*item.name), ("mapping", &*format!("ingester/lab/{UUID}")));
    assert_eq!((item.since_ms, item.next), (Some(40_000), None));
    assert_eq!(item.evidence, ["stream eiger has sent 6 items"]);
    // A short wait is a part of it.
    let state = snapshot(sender(WaitCondition::Items(0), 0));
    assert_eq!(
        state.mapping_item().text,
        "5 of 10 assigned events are queued or sent; no event waits for a worker"
    );
}

#[test]
fn a_mapping_that_waits_for_a_start_or_a_frame_has_the_stream_and_its_address() {
    let waiting = SenderState { next: Some(5), ..sender(WaitCondition::Items(0), 20) };
    let mut state = snapshot(waiting);
    let item = state.mapping_item();
    let text = "event 5 waits for a frame of stream eiger from tcp://det:9999; 5 of 10 assigned events are queued or sent";
    assert_eq!(outline(&item), (Progress::Waits, "scan/stream_0", vec!["waits_for_frame"], true, text));
    assert_eq!((item.since_ms, item.causes[0].since_ms), (Some(80_000), Some(80_000)));
    let help =
        "check that stream eiger from tcp://det:9999 sends; orchestrator ingester status shows its items";
    assert_eq!(item.causes[0].help, help);
    // Later frames have taken the places of those that are missing.
    state.record.counts.streams[0].1 = [6, 2, 1, 0, 0, 0];
    state.streams[0].retry_in_ms = Some(500);
    let item = state.mapping_item();
    assert!(!item.causes[0].routine);
    assert_eq!(item.next, Some(NextChance::NotBefore { at_ms: 100_500 }));
    let missing = "stream eiger has sent 6 items; 2 frames are missing in its numbers (gaps: 1)";
    assert_eq!(item.causes[0].evidence[0], missing);
    state.record.counts.streams[0].1 = [0, 0, 0, 0, 0, 3];
    let item = state.mapping_item();
    assert!(item.text.starts_with("event 5 waits for the start message of stream eiger from tcp://det:9999"));
    assert_eq!(item.causes[0].kind, "waits_for_start");
    assert!(
        item.causes[0].help.starts_with("begin a new series at stream eiger from tcp://det:9999: "),
        "{item:?}"
    );
}

#[test]
fn a_mapping_that_starts_has_the_sources_that_it_waits_for() {
    let mut state = snapshot(sender(WaitCondition::Yield, 0));
    state.awaited = Some(vec![0]);
    let item = state.mapping_item();
    let text = "starts: it waits until these sources are connected: stream eiger from tcp://det:9999; 5 of 10 assigned events are queued or sent";
    assert_eq!(outline(&item), (Progress::Waits, "scan/stream_0", vec!["mapping_starts"], true, text));
    assert_eq!(item.next, Some(NextChance::At { at_ms: 43_000 }));
}

#[test]
fn a_mapping_without_assigned_events_has_the_key_and_the_last_entry() {
    let mut state = snapshot(sender(WaitCondition::Events, 30));
    let item = state.mapping_item();
    let text = format!(
        "waits for the controller's assignments in `dranspose:assigned:{UUID}`, whose last entry 17-0 was read \
         2.0 s ago; 5 of 10 assigned events are queued or sent"
    );
    assert_eq!(outline(&item), (Progress::Waits, "scan/assign", vec!["waits_for_assignments"], true, &*text));
    let command = format!("redis-cli -u redis://r XREVRANGE dranspose:assigned:{UUID} + - COUNT 1 ");
    assert!(item.causes[0].help.starts_with(&command), "{item:?}");
    state.streams[0].waiting_items = 4;
    state.last_entry = None;
    let item = state.mapping_item();
    assert!(!item.causes[0].routine && item.text.contains(", of which no entry was read; "), "{item:?}");
    assert_eq!(item.causes[0].evidence, ["4 items of its streams wait for their events"]);
}

#[test]
fn a_worker_that_takes_nothing_is_the_cause() {
    let held_up = WorkerCause {
        kind: "slow_worker",
        text: "worker w reads nothing".to_owned(),
        evidence: vec!["5 events wait for it, 2 were sent".to_owned()],
        help: "restart worker w".to_owned(),
    };
    let mut state = snapshot(sender(WaitCondition::Yield, 0));
    (state.held_up, state.peers) = (Some(held_up), vec![peer("w", 5)]);
    let item = state.mapping_item();
    assert_eq!((item.progress, &*item.causes[0].kind), (Progress::InProgress, "slow_worker"));
    (state.sender, state.record.counts.assigned) = (Some(sender(WaitCondition::Events, 0)), 5);
    let item = state.mapping_item();
    let text = "all assigned events are queued, and worker w reads nothing; 5 of 5 assigned events are queued or sent";
    // The endpoint adds the cause, which is that of the child.
    assert_eq!(outline(&item), (Progress::Waits, "egress", vec![], false, text));
    // Its queue is full.
    let full = SenderState { refused: Some(("w".into(), 5)), ..sender(WaitCondition::Room, 3) };
    state.sender = Some(full);
    let item = state.mapping_item();
    let text = "event 5 and all after it wait for room in the queue of worker w; 5 of 5 assigned events are queued or sent";
    assert_eq!(outline(&item), (Progress::Waits, "egress", vec!["queue_full"], false, text));
    assert_eq!(item.causes[0].evidence, ["5 events wait for it, 500 bytes in memory and 7 on disk"]);
    let help = "orchestrator ingester status; restart worker w";
    assert!(item.causes[0].help.starts_with(help), "{item:?}");
    state.sender = Some(SenderState { next: Some(5), ..sender(WaitCondition::Dump, 3) });
    let item = state.mapping_item();
    assert_eq!((&*item.causes[0].kind, &*item.path), ("dump_full", "ingester/lab/dump"));
}

#[test]
fn an_ended_mapping_has_its_counts_reason_dump_and_job() {
    let whole = ended_mapping();
    let item = |ended: &Record| ended.mapping_item(&names());
    let told = item(&whole);
    let text = "ended whole, finished by the controller: 10 of 10 assigned events were sent";
    assert_eq!(outline(&told), (Progress::Ended, "scan/work", vec![], false, text));
    let evidence = ["it lasted 12.3 s", "dump file /data/a.cbors", "stream eiger has sent 6 items"];
    assert_eq!(told.evidence, evidence);
    assert_eq!((told.since_ms, told.next), (Some(13_300), None));
    assert_eq!(told.continues_as, ["queue/scans/1"]);
    let mut gaps = whole.clone();
    gaps.counts.streams[0].1 = [6, 2, 1, 3, 4, 0];
    let text = "ended with gaps, finished by the controller: 10 of 10 assigned events were sent; stream eiger has \
        sent 6 items; 2 frames are missing in its numbers (gaps: 1); 3 items were lost, since workers were slower \
        than the source; 4 messages were invalid and dropped";
    assert_eq!(item(&gaps).text, text);
    let mut early = whole.clone();
    (early.counts.sent, early.waiting) = (7, 3);
    assert!(item(&early).text.starts_with("ended early, finished by the controller: 7 of 10 "));
    assert!(item(&early).evidence[2].starts_with("3 events waited for workers at its end"));
    let mut interrupted = Record { job: None, interrupted: Some("work panicked".to_owned()), ..early };
    interrupted.mapping.finished = false;
    let told = item(&interrupted);
    let text = "was interrupted, since work panicked: 7 of 10 assigned events were sent; replaced by a new mapping \
        before the controller finished it";
    assert_eq!((&*told.text, told.continues_as.len()), (text, 0));
    interrupted.mapping.active.clear();
    interrupted.interrupted = None;
    assert!(item(&interrupted).text.starts_with("used no stream of this ingester; "));
}

#[test]
fn a_running_mapping_that_was_interrupted_needs_a_new_one() {
    let mut state = snapshot(sender(WaitCondition::Yield, 0));
    state.record.mapping.dump = Some("/data/b.cbors".to_owned());
    state.record.interrupted = Some("stream_0 ended: panicked".to_owned());
    let item = state.mapping_item();
    let text = "was interrupted, since stream_0 ended: panicked: 5 of 10 assigned events were sent, the others are not";
    assert_eq!(outline(&item), (Progress::Ended, "scan/work", vec!["interrupted_scan"], false, text));
    assert_eq!(item.causes[0].help, "set a new mapping at the controller");
    assert!(item.evidence.contains(&"dump file /data/b.cbors".to_owned()), "{item:?}");
    let item = state.event_item(3);
    assert!(
        item.text.starts_with("is no longer known: the scan was interrupted, since stream_0 ended: panicked")
    );
}

#[test]
fn an_event_that_is_assigned_has_its_workers_and_what_it_waits_for() {
    let asked = |workers: &[&str], before| {
        Some(AssignedEvent { workers: workers.iter().map(|worker| (*worker).into()).collect(), before })
    };
    let waiting =
        SenderState { next: Some(5), asked: asked(&["w1", "w2"], 0), ..sender(WaitCondition::Items(0), 20) };
    let mut state = snapshot(waiting.clone());
    let item = state.event_item(5);
    let text = "is assigned to w1, w2 and is sent next: event 5 waits for a frame of stream eiger from tcp://det:9999";
    assert_eq!(outline(&item), (Progress::Waits, "scan/stream_0", vec!["waits_for_frame"], true, text));
    assert_eq!((&*item.kind, &*item.name), ("event", &*format!("ingester/lab/{UUID}#5")));
    state.sender = Some(SenderState { asked: asked(&["w1"], 2), ..waiting.clone() });
    let text = "is assigned to w1 and has 2 before it: event 5 waits for a frame of stream eiger from tcp://det:9999";
    assert_eq!(state.event_item(7).text, text);
    state.sender = Some(SenderState { asked: asked(&[], 2), ..waiting.clone() });
    let text = "is assigned to no worker: its frames are dropped once they arrive";
    assert_eq!(outline(&state.event_item(7)), (Progress::Ended, "scan/work", vec![], false, text));
    state.sender = Some(SenderState { asked: asked(&["w1"], 0), ..sender(WaitCondition::Yield, 0) });
    let item = state.event_item(5);
    assert_eq!(
        (&*item.text, item.next),
        ("is assigned to w1 and is sent next", Some(NextChance::At { at_ms: 100_000 }))
    );
    let full = SenderState {
        refused: Some(("w".into(), 5)),
        refused_by: vec!["w".into()],
        ..sender(WaitCondition::Room, 3)
    };
    state.sender = Some(full);
    let item = state.event_item(5);
    let text = "waits for room in the queue of w";
    assert_eq!(outline(&item), (Progress::Waits, "egress", vec!["queue_full"], false, text));
    state.record.mapping.finished = true;
    state.sender = Some(SenderState { asked: asked(&["w1"], 0), ..sender(WaitCondition::Items(0), 0) });
    let item = state.event_item(5);
    assert_eq!(item.progress, Progress::Ended);
    assert!(item.text.ends_with("is not sent: the controller finished the mapping first"), "{item:?}");
}

#[test]
fn an_event_without_an_assignment_waits_for_the_controller() {
    let mut state = snapshot(sender(WaitCondition::Events, 0));
    let item = state.event_item(10);
    let text = format!(
        "is not assigned yet: event 9 is the last one in `dranspose:assigned:{UUID}`, whose last entry 17-0 was \
         read 2.0 s ago"
    );
    assert_eq!(outline(&item), (Progress::Waits, "scan/assign", vec!["waits_for_assignments"], true, &*text));
    let full = SenderState { is_full: true, next: Some(5), ..sender(WaitCondition::Items(0), 9) };
    state.sender = Some(full);
    let item = state.event_item(10);
    assert_eq!((&*item.causes[0].kind, &*item.path), ("waits_for_frame", "ingester/lab/scan/stream_0"));
    assert!(item.text.ends_with("further entries are read once events are sent"), "{item:?}");
    state.record.mapping.finished = true;
    assert_eq!(state.event_item(10).text, "was not assigned before the controller finished the mapping");
    (state.sender, state.awaited) = (None, Some(Vec::new()));
    assert_eq!(state.event_item(10).text, "was not sent: the mapping ended after event 4");
    state.record.mapping.finished = false;
    assert_eq!(outline(&state.event_item(0)).2, ["mapping_starts"]);
    state.record.mapping.active.clear();
    assert_eq!(outline(&state.event_item(0)).4, "has no stream of this ingester");
    assert_eq!(outline(&state.mapping_item()).4, "uses no stream of this ingester");
}

#[test]
fn an_event_that_was_given_to_a_queue_waits_there_or_was_sent() {
    let mut state = snapshot(sender(WaitCondition::Events, 0));
    state.peers = vec![PeerState { connected: false, ..peer("w1", 3) }, peer("w2", 0)];
    let at = |place| vec![("w1".into(), place), ("w2".into(), Place::Taken)];
    for (place, text) in [
        (Place::Memory { ahead: 2 }, "waits in memory for worker w1, with 2 before it"),
        (Place::Disk { first: 3, last: 8 }, "waits on disk for worker w1, with all events from 3 to 8"),
        (
            Place::PerhapsDisk { first: 3, last: 8 },
            "waits on disk for worker w1, if it is one of its events from 3 to 8",
        ),
    ] {
        state.places = at(place);
        let item = state.event_item(4);
        assert_eq!(outline(&item), (Progress::Waits, "egress", vec!["worker_queue"], false, text));
        assert_eq!(item.causes[0].text, "worker w1 is not connected");
        assert_eq!(item.causes[0].help, "orchestrator ingester status; start worker w1");
    }
    state.places = at(Place::Taken);
    state.peers[1].progress.finished = Some(4);
    let item = state.event_item(4);
    let text = "was sent to one or more of w1, w2, unless it was assigned to nobody";
    assert_eq!(outline(&item), (Progress::Ended, "scan/work", vec![], false, text));
    assert_eq!(item.evidence[0], "worker w2 has reported event 4 as finished");
    let command = format!("redis-cli -u redis://r XRANGE dranspose:assigned:{UUID} - + | grep");
    assert!(item.evidence[1].contains("are not kept once it is sent") && item.evidence[1].contains(&command));
    state.places.truncate(1);
    assert_eq!(state.event_item(4).text, "was sent to worker w1, unless it was assigned to nobody");
    state.places.clear();
    let text = "was assigned to nobody, or has no frame at this ingester: nothing was sent";
    assert_eq!(state.event_item(4).text, text);
}

#[test]
fn an_event_of_an_ended_mapping_is_no_longer_known() {
    let mut ended = ended_mapping();
    let item = ended.event_item(&names(), 9);
    assert!(item.text.starts_with("was sent to its workers, unless "), "{item:?}");
    assert_eq!(item.evidence[0], "only the counts of an ended mapping are kept, not its events");
    assert_eq!(ended.event_item(&names(), 10).text, "was not sent: the mapping ended after event 9");
    ended.last_event = None;
    assert!(ended.event_item(&names(), 0).text.ends_with("before any event was"));
}

#[test]
fn the_last_mappings_are_kept_once_each() {
    let mut history = History::default();
    for number in 0..70 {
        let mut ended = ended_mapping();
        ended.mapping.uuid = Some(Uuid::from_u128(number));
        history.add(ended.clone());
        history.add(ended);
    }
    assert_eq!(history.ended.len(), crate::mapping::FORMER_MAX);
    assert_eq!(history.ended[0].mapping.uuid, Some(Uuid::from_u128(6)));
}
