//! Updates as captured, and in the orders that robbed the original of scans.

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
    let turn = Following::default().take(&update, &MINE);
    assert_eq!(turn.begin.unwrap().1, ["eiger"]);
    assert_eq!(turn.finish, None);
}

#[test]
fn a_nudge_right_behind_a_mapping_takes_no_stream_away() {
    let mut following = Following::default();
    assert_eq!(
        following.take(&update(1, &["eiger", "other"]), &MINE).begin,
        Some((uuid(1), vec!["eiger".into()]))
    );
    assert_eq!(following.take(&update(1, &[]), &MINE).begin, None);
}

#[test]
fn an_unknown_mapping_is_adopted_without_streams() {
    let mut following = Following::default();
    assert_eq!(following.take(&update(4, &[]), &MINE).begin, Some((uuid(4), vec![])));
}

#[test]
fn without_active_streams_all_of_mine_are() {
    let text = format!(r#"{{"mapping_uuid":"{}","parameters_version":{{}}}}"#, uuid(3));
    let update: ControllerUpdate = serde_json::from_str(&text).unwrap();
    assert_eq!(Following::default().take(&update, &MINE).begin.unwrap().1, MINE);
}

#[test]
fn finished_is_answered_under_its_own_mapping_and_a_former_one_does_not_come_back() {
    let mut following = Following::default();
    following.take(&update(1, &["eiger"]), &MINE);
    following.take(&update(2, &["eiger"]), &MINE);
    assert_eq!(following.take(&finished(1), &MINE), Turn { begin: None, finish: Some(uuid(1)) });
    assert_eq!(following.mapping(), Some(uuid(2)));
    assert_eq!(
        following.take(&finished(9), &MINE),
        Turn { begin: Some((uuid(9), vec![])), finish: Some(uuid(9)) }
    );
}

#[test]
fn who_goes_on_after_a_restart_knows_the_former_ones() {
    let mut following = Following::resumed(Some(uuid(2)), [uuid(1)].into());
    assert_eq!(following.take(&finished(1), &MINE), Turn { begin: None, finish: Some(uuid(1)) });
    assert_eq!(following.take(&update(2, &["eiger"]), &MINE), Turn { begin: None, finish: None });
    assert_eq!(following.mapping(), Some(uuid(2)));
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut following = Following::default();
    (0..1000).for_each(|n| drop(following.take(&update(n, &[]), &MINE)));
    assert_eq!(following.former.len(), FORMER_MAX);
}
