//! Groups with bad rows among good ones.

use orchestrator_supervise::{Pending, reply};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{
    batch::{Batch, tests::messages},
    row::Sha1Git,
};

type Refused = Pending<Vec<Refusal>>;

fn request(rows: Rows) -> (WriteRequest, Refused) {
    let (reply, answer) = reply();
    (WriteRequest { rows, reply }, answer)
}

fn id(byte: u8) -> Sha1Git {
    Sha1Git([byte; 20])
}

/// Writes `group` to a store that refuses parts with one of `bad`. Returns the stored rows and the
/// number of writes.
fn write_all(group: &mut Group, bad: &[u32]) -> (Vec<u32>, usize) {
    let (mut stored, mut writes) = (Vec::new(), 0);
    while let Some(part) = group.next_part() {
        writes += 1;
        let [Rows::Locations(paths)] = &part[..] else { panic!("locations") };
        let numbers: Vec<u32> =
            paths.iter().map(|path| u32::from_be_bytes(path[..].try_into().unwrap())).collect();
        if numbers.iter().any(|number| bad.contains(number)) {
            group.part_refused("bad".to_owned(), |_| Instant::now());
        } else {
            stored.extend(numbers);
            group.part_stored();
        }
    }
    (stored, writes)
}

#[test]
fn rows_of_a_method_are_merged_and_entities_come_first() {
    let relation = crate::method::Relation::RevisionBeforeRevision;
    let row = crate::row::RelationRow { src: id(1), dst: id(2), path: None };
    let requests = [
        Rows::Relations(relation, vec![row.clone()]),
        Rows::Origins(vec![(id(1), "former".to_owned()), (id(1), "first".to_owned())]),
        Rows::Relations(relation, vec![row.clone()]),
        Rows::Origins(vec![(id(1), "second".to_owned()), (id(2), "other".to_owned())]),
    ];
    let group = Group::new(requests.map(|rows| request(rows).0).into());
    let origins = Rows::Origins(vec![(id(1), "first".to_owned()), (id(2), "other".to_owned())]);
    assert_eq!(group.next_part(), Some(vec![origins, Rows::Relations(relation, vec![row])]));
}

#[test]
fn good_requests_are_answered_before_the_bad_row_is_refused() {
    let (requests, mut answers): (Vec<_>, Vec<_>) =
        (0..3).map(|i| request(Rows::Contents(vec![(id(i), None)]))).unzip();
    let mut group = Group::new(requests);
    let mut tries = 0;
    while let Some(part) = group.next_part() {
        let [Rows::Contents(rows)] = &part[..] else { panic!("contents") };
        if rows.contains(&(id(1), None)) {
            tries += u32::from(rows.len() == 1);
            if tries == 2 {
                assert!(
                    answers[2].try_recv().unwrap().expect("an answer").is_empty(),
                    "the bad row is tried again after it"
                );
            }
            group.part_refused("no".to_owned(), |_| Instant::now());
        } else {
            group.part_stored();
        }
    }
    assert_eq!(tries, TRIES);
    assert!(answers[0].try_recv().unwrap().expect("an answer").is_empty());
    assert_eq!(
        answers[1].try_recv().unwrap().expect("an answer"),
        [Refusal { index: 0, reason: "no".to_owned() }]
    );
}

#[test]
fn a_refused_row_is_retried_after_a_pause_and_after_the_other_rows() {
    let (request, mut answer) = request(Rows::Contents((0..4).map(|i| (id(i), None)).collect()));
    let mut group = Group::new(vec![request]);
    let started = Instant::now();
    let (mut pauses, mut stored) = (Vec::new(), 0);
    while let Some(part) = group.next_part() {
        let [Rows::Contents(rows)] = &part[..] else { panic!("contents") };
        let not_before = group.not_before();
        if rows.contains(&(id(0), None)) {
            pauses.extend(not_before.map(|at| (at - started, stored)));
            group.part_refused("no".to_owned(), |refusals| started + Duration::from_millis(refusals.into()));
        } else {
            assert_eq!(not_before, None);
            stored += rows.len();
            group.part_stored();
        }
    }
    assert_eq!(pauses, [1, 2].map(|pause| (Duration::from_millis(pause), 3)));
    assert!(group.is_settled());
    assert_eq!(answer.try_recv().unwrap().expect("an answer").len(), 1);
}

#[test]
fn a_request_without_rows_is_stored() {
    let (request, mut answer) = request(Rows::Locations(Vec::new()));
    assert_eq!(Group::new(vec![request]).next_part(), None);
    assert_eq!(answer.try_recv(), Ok(Some(Vec::new())));
}

#[test]
fn one_bad_row_is_isolated_in_few_writes() {
    let (mut waiting, _) = messages(&[1000]);
    let batch = Batch::gather(&mut waiting, 100).unwrap();
    let (request, mut answer) = request(batch.rows().clone());
    let mut group = Group::new(vec![request]);
    let (stored, writes) = write_all(&mut group, &[700]);
    assert_eq!(stored.len(), 999);
    assert!(writes <= 2 * 10 + TRIES as usize, "{writes}");
    assert_eq!(
        answer.try_recv().unwrap().expect("an answer"),
        [Refusal { index: 699, reason: "bad".to_owned() }]
    );
}

proptest! {
    #[test]
    fn each_row_is_settled_and_reported_to_its_message(
        lengths in prop::collection::vec(0usize..20, 1..12),
        bad in prop::collection::vec(1u32..120, 0..6),
        limit in 1usize..80,
        together in 1usize..4,
    ) {
        let (mut waiting, replies) = messages(&lengths);
        let batches: Vec<_> = std::iter::from_fn(|| Batch::gather(&mut waiting, limit)).collect();
        let (requests, refusals): (Vec<_>, Vec<_>) =
            batches.iter().map(|batch| request(batch.rows().clone())).unzip();
        let (mut requests, mut stored) = (requests.into_iter().peekable(), Vec::new());
        while requests.peek().is_some() {
            let mut group = Group::new(requests.by_ref().take(together).collect());
            stored.extend(write_all(&mut group, &bad).0);
        }
        for (batch, mut answer) in batches.into_iter().zip(refusals) {
            batch.settle(answer.try_recv().unwrap().expect("an answer"));
        }
        let total = lengths.iter().sum::<usize>() as u32;
        let expected: Vec<u32> = (1..=total).filter(|number| !bad.contains(number)).collect();
        stored.sort_unstable();
        prop_assert_eq!(stored, expected);
        let mut first = 1;
        for (length, mut answer) in lengths.iter().zip(replies) {
            let settled = answer.try_recv().unwrap().expect("an answer");
            let refused: Vec<u32> = settled.refused.iter().map(|refusal| first + refusal.index).collect();
            let expected: Vec<u32> =
                (first..first + *length as u32).filter(|number| bad.contains(number)).collect();
            prop_assert_eq!(&refused, &expected);
            prop_assert_eq!(settled.stored as usize, length - expected.len());
            first += *length as u32;
        }
    }
}
