//! Messages in batches, and bad rows among good ones.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

type Answers = Vec<oneshot::Receiver<Settled>>;

/// Messages of locations; each path is its own number.
fn messages(lengths: &[usize]) -> (VecDeque<Request>, Answers) {
    let mut number = 0u32;
    lengths
        .iter()
        .map(|length| {
            let paths = (0..*length).map(|_| {
                number += 1;
                Bytes::copy_from_slice(&number.to_be_bytes())
            });
            let (reply, answer) = oneshot::channel();
            (Request { rows: Rows::Locations(paths.collect()), reply }, answer)
        })
        .unzip()
}

/// A store that refuses whatever holds one of `bad`.
fn write_all(batch: &mut Batch, bad: &[u32]) -> (Vec<u32>, usize) {
    let (mut stored, mut writes) = (Vec::new(), 0);
    while let Some(part) = batch.next_part() {
        writes += 1;
        let Rows::Locations(paths) = part else { panic!("locations") };
        let numbers: Vec<u32> =
            paths.iter().map(|path| u32::from_be_bytes(path[..].try_into().unwrap())).collect();
        if numbers.iter().any(|number| bad.contains(number)) {
            batch.part_refused("bad".to_owned());
        } else {
            stored.extend(numbers);
            batch.part_stored();
        }
    }
    (stored, writes)
}

#[test]
fn whole_messages_up_to_the_limit_and_one_at_least() {
    let (mut waiting, _answers) = messages(&[250, 60, 40, 1]);
    let batch = |waiting: &mut VecDeque<Request>| Batch::gather(waiting, 100).map(|batch| batch.len());
    assert_eq!(batch(&mut waiting), Some(250), "one that is larger than a batch goes alone");
    assert_eq!(batch(&mut waiting), Some(100));
    assert_eq!(batch(&mut waiting), Some(1));
    assert_eq!(batch(&mut waiting), None);
}

#[test]
fn methods_are_not_mixed() {
    let (mut waiting, _answers) = messages(&[2]);
    let (reply, _answer) = oneshot::channel();
    waiting.push_back(Request { rows: Rows::Origins(Vec::new()), reply });
    assert_eq!(Batch::gather(&mut waiting, 100).map(|batch| batch.len()), Some(2));
    assert_eq!(waiting.len(), 1);
}

#[test]
fn a_batch_that_ends_unsettled_says_so() {
    let (mut waiting, mut answers) = messages(&[2]);
    drop(Batch::gather(&mut waiting, 100));
    assert!(answers.remove(0).try_recv().is_err(), "the sender is gone");
}

#[test]
fn one_bad_row_among_many_costs_few_writes() {
    let (mut waiting, mut answers) = messages(&[1000]);
    let mut batch = Batch::gather(&mut waiting, 100).unwrap();
    let (stored, writes) = write_all(&mut batch, &[700]);
    assert_eq!(stored.len(), 999);
    assert!(writes <= 2 * 10 + TRIES as usize, "{writes}");
    assert_eq!(batch.settle(), (999, 1));
    let settled = answers.remove(0).try_recv().unwrap();
    assert_eq!((settled.stored, settled.refused[0].index), (999, 699));
}

proptest! {
    #[test]
    fn every_row_is_stored_or_refused_and_each_message_hears_of_its_own(
        lengths in prop::collection::vec(0usize..20, 1..12),
        bad in prop::collection::vec(1u32..120, 0..6),
        limit in 1usize..80,
    ) {
        let (mut waiting, answers) = messages(&lengths);
        let mut stored = Vec::new();
        while let Some(mut batch) = Batch::gather(&mut waiting, limit) {
            stored.extend(write_all(&mut batch, &bad).0);
            batch.settle();
        }
        let total = lengths.iter().sum::<usize>() as u32;
        let expected: Vec<u32> = (1..=total).filter(|number| !bad.contains(number)).collect();
        stored.sort_unstable();
        prop_assert_eq!(stored, expected);
        let mut first = 1;
        for (length, mut answer) in lengths.iter().zip(answers) {
            let settled = answer.try_recv().unwrap();
            let refused: Vec<u32> = settled.refused.iter().map(|refusal| first + refusal.index).collect();
            let expected: Vec<u32> =
                (first..first + *length as u32).filter(|number| bad.contains(number)).collect();
            prop_assert_eq!(&refused, &expected);
            prop_assert_eq!(settled.stored as usize, length - expected.len());
            first += *length as u32;
        }
    }
}
