//! Captured updates, and orders of updates in which the original loses scans.

use super::*;

const MINE: [&str; 2] = ["eiger", "pcap"];

fn uuid(n: u128) -> Uuid {
    uuid::Builder::from_random_bytes(n.to_be_bytes()).into_uuid()
}

fn update(n: u128, streams: &[&str]) -> ControllerUpdate {
    ControllerUpdate {
        mapping_uuid: uuid(n),
        parameters_version: BTreeMap::new(),
        active_streams: Some(streams.iter().map(|s| (*s).to_owned()).collect()),
        finished: false,
    }
}

fn finished(n: u128) -> ControllerUpdate {
    ControllerUpdate { finished: true, ..update(n, &[]) }
}

#[test]
fn the_captured_update_is_read() {
    let text = r#"{"mapping_uuid":"6277a4d0-975c-4dfe-97be-7f6d1d5a5c38","parameters_version":{"dump_prefix":"981b7b5c-975c-4dfe-97be-7f6d1d5a5c38"},
        "target_parameters_hash":null,"active_streams":["eiger"],"finished":false}"#;
    let update: ControllerUpdate = serde_json::from_str(text).unwrap();
    assert_eq!(update.parameters_version.len(), 1);
    let actions = MappingTracker::default().take(&update, &MINE);
    assert_eq!(actions.begin.unwrap().1, ["eiger"]);
    assert_eq!(actions.finish, None);
}

#[test]
fn an_update_right_behind_a_mapping_removes_no_stream() {
    let mut tracker = MappingTracker::default();
    assert_eq!(
        tracker.take(&update(1, &["eiger", "other"]), &MINE).begin,
        Some((uuid(1), vec!["eiger".into()]))
    );
    assert_eq!(tracker.take(&update(1, &[]), &MINE).begin, None);
}

#[test]
fn an_unknown_mapping_is_adopted_without_streams() {
    let mut tracker = MappingTracker::default();
    assert_eq!(tracker.take(&update(4, &[]), &MINE).begin, Some((uuid(4), vec![])));
}

#[test]
fn without_active_streams_all_streams_are_used() {
    let text = format!(r#"{{"mapping_uuid":"{}","parameters_version":{{}}}}"#, uuid(3));
    let update: ControllerUpdate = serde_json::from_str(&text).unwrap();
    assert_eq!(MappingTracker::default().take(&update, &MINE).begin.unwrap().1, MINE);
}

#[test]
fn finished_is_answered_under_its_own_mapping_and_a_former_one_does_not_restart() {
    let mut tracker = MappingTracker::default();
    tracker.take(&update(1, &["eiger"]), &MINE);
    tracker.take(&update(2, &["eiger"]), &MINE);
    assert_eq!(tracker.take(&finished(1), &MINE), UpdateActions { begin: None, finish: Some(uuid(1)) });
    assert_eq!(tracker.mapping(), Some(uuid(2)));
    assert_eq!(
        tracker.take(&finished(9), &MINE),
        UpdateActions { begin: Some((uuid(9), vec![])), finish: Some(uuid(9)) }
    );
}

#[test]
fn a_resumed_tracker_knows_the_former_mappings() {
    let mut tracker = MappingTracker::resumed(Some(uuid(2)), [uuid(1)].into());
    assert_eq!(tracker.take(&finished(1), &MINE), UpdateActions { begin: None, finish: Some(uuid(1)) });
    assert_eq!(tracker.take(&update(2, &["eiger"]), &MINE), UpdateActions { begin: None, finish: None });
    assert_eq!(tracker.mapping(), Some(uuid(2)));
}

#[test]
fn former_mappings_are_bounded() {
    let mut tracker = MappingTracker::default();
    (0..1000).for_each(|n| drop(tracker.take(&update(n, &[]), &MINE)));
    assert_eq!(tracker.former.len(), FORMER_MAX);
}
