//! Requests that share a transaction.

use super::*;
use crate::row::Sha1Git;

fn request(rows: Rows) -> (WriteRequest, oneshot::Receiver<Result<(), StoreError>>) {
    let (reply, answer) = oneshot::channel();
    (WriteRequest { rows, reply }, answer)
}

fn id(byte: u8) -> Sha1Git {
    Sha1Git([byte; 20])
}

#[test]
fn rows_of_a_method_become_one_and_entities_come_first() {
    let mut group = Group::default();
    let relation = crate::method::Relation::RevisionBeforeRevision;
    let row = crate::row::RelationRow { src: id(1), dst: id(2), path: None };
    for rows in [
        Rows::Relations(relation, vec![row.clone()]),
        Rows::Origins(vec![(id(1), "first".to_owned())]),
        Rows::Relations(relation, vec![row.clone()]),
        Rows::Origins(vec![(id(1), "second".to_owned()), (id(2), "other".to_owned())]),
    ] {
        group.add(request(rows).0);
    }
    assert_eq!(group.len(), 5);
    let origins = Rows::Origins(vec![(id(1), "first".to_owned()), (id(2), "other".to_owned())]);
    assert_eq!(group.merged(), [origins, Rows::Relations(relation, vec![row])]);
}

#[test]
fn everybody_is_told_and_a_refused_group_falls_apart() {
    let mut group = Group::default();
    let (requests, mut answers): (Vec<_>, Vec<_>) =
        (0..3).map(|i| request(Rows::Contents(vec![(id(i), None)]))).unzip();
    requests.into_iter().for_each(|request| group.add(request));
    let parts = group.split().unwrap();
    assert_eq!(parts.iter().map(Group::len).collect::<Vec<_>>(), [1, 1, 1]);
    let refused = Err(StoreError::Refused("no".to_owned()));
    for (i, mut part) in parts.into_iter().enumerate() {
        assert_eq!(part.merged(), [Rows::Contents(vec![(id(i as u8), None)])]);
        let part = part.split().unwrap_err();
        part.answer(if i == 1 { &refused } else { &Ok(()) });
    }
    let told: Vec<_> = answers.iter_mut().map(|answer| answer.try_recv().unwrap()).collect();
    assert_eq!(told, [Ok(()), refused, Ok(())]);
}
