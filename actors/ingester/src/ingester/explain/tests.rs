//! States of mappings, in words.

use orchestrator_subsystem::{NextChance, Progress};
use uuid::Uuid;

use super::Seen;
use crate::{mapping::Mappings, verbs::WorkerRow};

fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(0xABCD_EF01 << 96 | number)
}

/// The second of two mappings is the current one.
fn seen() -> Seen<'static> {
    let mut mappings = Mappings::default();
    mappings.begin(uuid(1), (vec![0], false), None, 0);
    mappings.begin(uuid(2), (vec![0], false), Some("/data/2.cbors".to_owned()), 9);
    Seen { ingester: "eiger", mappings, interrupted: 0, scan: None, scan_path: "o/scan", workers: Vec::new() }
}

#[test]
fn a_mapping_waits_for_assignments_and_is_found_by_its_beginning() {
    let explained = seen().explained("abcdef01");
    let names: Vec<_> = explained.found.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, [format!("ingester/eiger/{}", uuid(2)), format!("ingester/eiger/{}", uuid(1))]);
    let [current, former] = &explained.found[..] else { panic!("{explained:?}") };
    assert_eq!((current.progress, current.causes[0].kind.as_str()), (Progress::Waits, "assignment"));
    assert!(
        current.causes[0].routine && current.evidence.iter().any(|fact| fact == "dumped to /data/2.cbors")
    );
    assert_eq!(
        current.next,
        Some(NextChance::Unknown { reason: "once the controller assigns it".to_owned() })
    );
    assert_eq!(
        (former.progress, former.text.contains("a later mapping has replaced it")),
        (Progress::Ended, true)
    );
}

#[test]
fn an_event_that_is_not_assigned_names_that() {
    let explained = seen().explained(&format!("{}#7", uuid(2)));
    assert_eq!((explained.found[0].kind.as_str(), explained.found.len()), ("event", 1));
    assert_eq!(explained.found[0].causes[0].text, "the controller has assigned it to no worker yet");
    let mut finished = seen();
    finished.mappings.current.finished = true;
    assert!(finished.explained(&format!("{}#7", uuid(2))).found[0].text.starts_with("assigned to nobody"));
    let mapping = &finished.explained(&uuid(2).to_string()).found[0];
    assert_eq!((mapping.progress, mapping.text.as_str()), (Progress::Ended, "finished by the controller"));
}

#[test]
fn an_interrupted_scan_and_a_slow_worker_are_named() {
    let mut seen = seen();
    seen.workers = vec![WorkerRow {
        worker: "w2".to_owned(),
        connected: true,
        events: 1,
        bytes: 1,
        queued_messages: 3,
        queued_bytes: 300,
        spilled_bytes: 0,
        oldest_ms: Some(40),
    }];
    let fact = "worker w2 has not taken 3 messages (300 bytes), the oldest for 40 ms";
    assert!(seen.explained(&uuid(2).to_string()).found[0].evidence.iter().any(|known| known == fact));
    seen.interrupted = 2;
    let text = &seen.explained(&uuid(2).to_string()).found[0].text;
    assert!(text.starts_with("interrupted: its remaining events are not sent"), "{text}");
    assert_eq!(seen.explained(&format!("{}#0", uuid(2))).found[0].text, "not sent: the scan was interrupted");
}

#[test]
fn what_is_no_mapping_is_unknown() {
    for name in ["python3Packages.requests", "abcdef0", "abcdef01#x", "", "catalog/lab/work/1"] {
        assert_eq!(seen().explained(name), orchestrator_subsystem::Explained::default(), "{name}");
    }
    let explained = seen().explained(&uuid(3).to_string());
    assert!(explained.found.is_empty() && explained.searched == "the last 2 mappings", "{explained:?}");
    assert_eq!(explained.nearest.len(), 2);
}
