//! Batches of messages.

use bytes::Bytes;
use orchestrator_supervise::{Pending, reply};

use super::*;

pub(crate) type Answers = Vec<Pending<Outcome>>;

/// Each path is a number of its own.
pub(crate) fn messages(lengths: &[usize]) -> (VecDeque<Request>, Answers) {
    let mut number = 0u32;
    lengths
        .iter()
        .map(|length| {
            let paths = (0..*length).map(|_| {
                number += 1;
                Bytes::copy_from_slice(&number.to_be_bytes())
            });
            let (reply, answer) = reply();
            (Request { rows: Rows::Locations(paths.collect()), reply }, answer)
        })
        .unzip()
}

#[test]
fn a_batch_has_whole_messages_up_to_the_limit() {
    let (mut waiting, _answers) = messages(&[250, 60, 40, 1]);
    let batch = |waiting: &mut VecDeque<Request>| Batch::gather(waiting, 100).map(|batch| batch.rows().len());
    assert_eq!(batch(&mut waiting), Some(250), "one that is larger than a batch goes alone");
    assert_eq!(batch(&mut waiting), Some(100));
    assert_eq!(batch(&mut waiting), Some(1));
    assert_eq!(batch(&mut waiting), None);
}

#[test]
fn methods_are_not_mixed() {
    let (mut waiting, _answers) = messages(&[2]);
    let (reply, _answer) = reply();
    waiting.push_back(Request { rows: Rows::Origins(Vec::new()), reply });
    assert_eq!(Batch::gather(&mut waiting, 100).map(|batch| batch.rows().len()), Some(2));
    assert_eq!(waiting.len(), 1);
}

#[test]
fn dropping_a_batch_drops_its_replies() {
    let (mut waiting, mut answers) = messages(&[2]);
    drop(Batch::gather(&mut waiting, 100));
    assert!(answers.remove(0).try_recv().is_err(), "the sender is gone");
}

#[test]
fn each_message_gets_the_outcome_of_its_rows() {
    let (mut waiting, answers) = messages(&[2, 0, 3]);
    let batch = Batch::gather(&mut waiting, 100).unwrap();
    let refusal = |index| Refusal { index, reason: format!("{index}") };
    assert_eq!(batch.settle(vec![refusal(1), refusal(2), refusal(4)]), (2, 3));
    let outcomes: Vec<_> =
        answers.into_iter().map(|mut answer| answer.try_recv().unwrap().expect("an answer")).collect();
    let outcomes: Vec<_> = outcomes
        .iter()
        .map(|settled| {
            let refused = settled.refused.iter().map(|refusal| (refusal.index, refusal.reason.as_str()));
            (settled.stored, refused.collect::<Vec<_>>())
        })
        .collect();
    assert_eq!(outcomes, [(1, vec![(1, "1")]), (0, vec![]), (1, vec![(0, "2"), (2, "4")])]);
}
