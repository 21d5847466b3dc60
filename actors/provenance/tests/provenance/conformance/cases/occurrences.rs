//! Where a content appears: order, joined paths, limits (contract §8.1).

use orchestrator_provenance::method::Relation;
use orchestrator_provenance::row::{Rows, Sha1Git};
use orchestrator_provenance::store::{Found, Question, Store};

use super::super::{Pair, at, bare_revisions, content, data, directory, origin, paths, placed, revision};

async fn places<S: Store>(pair: &mut Pair<S>, question: Question) -> Vec<(Sha1Git, Vec<u8>)> {
    let Found::Occurrences(found) = pair.ask(question).await else {
        panic!("occurrences were asked for");
    };
    found.into_iter().map(|occurrence| (occurrence.revision, occurrence.path.to_vec())).collect()
}

/// By date, unknown ones last, then by revision, then by path.
pub(crate) async fn order<S: Store>(mut pair: Pair<S>) {
    pair.write(&[
        Rows::Contents(vec![(content(1), at(1))]),
        Rows::Origins(vec![(origin(1), "https://z".into()), (origin(2), "https://a".into())]),
        Rows::Revisions(vec![
            (revision(1), data(None, Some(origin(1)))),
            (revision(2), data(at(7), Some(origin(1)))),
            (revision(3), data(at(7), None)),
            (revision(4), data(at(-7), Some(origin(2)))),
            (revision(5), data(None, None)),
            // No content's.
            (revision(6), data(at(-9), None)),
        ]),
        paths(&[b"b", b"a", b"a/b", b"\xff", b""]),
    ])
    .await;
    let mut rows = vec![placed(content(1), revision(2), b"a"), placed(content(1), revision(2), b"\xff")];
    rows.extend((1..=5).map(|number| placed(content(1), revision(number), b"b")));
    rows.push(placed(content(1), revision(4), b"a/b"));
    pair.write(&[Rows::Relations(Relation::ContentInRevision, rows)]).await;
    let found = places(&mut pair, Question::FindAll { id: content(1), limit: None }).await;
    let revisions: Vec<_> = found.iter().map(|(revision, _)| *revision).collect();
    if pair.flavor.with_path {
        assert_eq!(revisions, [4, 4, 2, 2, 2, 3, 1, 5].map(revision));
        assert_eq!(found[0].1, b"a/b");
        assert_eq!(found[4].1, b"\xff");
    } else {
        assert_eq!(revisions, [4, 2, 3, 1, 5].map(revision));
    }
    assert_eq!(places(&mut pair, Question::FindFirst(content(1))).await, found[..1]);
}

pub(crate) async fn through_directories<S: Store>(mut pair: Pair<S>) {
    pair.write(&[
        Rows::Contents(vec![(content(1), None), (content(2), None)]),
        Rows::Directories((0..5).map(|number| (directory(number), None)).collect()),
        bare_revisions(0..4),
        paths(&[b"", b".", b"..", b"p", b"p/q", b"f", b"p/f", b"\0\xff", b"/"]),
    ])
    .await;
    let contents = vec![
        placed(content(1), directory(1), b"f"),
        placed(content(1), directory(2), b"f"),
        placed(content(1), directory(2), b"\0\xff"),
        placed(content(1), directory(3), b""),
        // In a directory that is in no revision.
        placed(content(1), directory(4), b"f"),
        placed(content(2), directory(4), b"f"),
    ];
    let directories = vec![
        placed(directory(1), revision(1), b""),
        placed(directory(1), revision(2), b"."),
        placed(directory(1), revision(2), b".."),
        placed(directory(1), revision(3), b"p"),
        placed(directory(2), revision(3), b"\0\xff"),
        placed(directory(2), revision(1), b"/"),
        placed(directory(2), revision(1), b"p/q"),
        placed(directory(3), revision(1), b"p"),
        // The same place as directory 1's, by another way.
        placed(directory(2), revision(3), b"p"),
    ];
    let direct = vec![placed(content(1), revision(3), b"p/f"), placed(content(1), revision(0), b"p")];
    pair.write(&[
        Rows::Relations(Relation::ContentInDirectory, contents),
        Rows::Relations(Relation::DirectoryInRevision, directories),
    ])
    .await;
    assert_eq!(places(&mut pair, Question::FindFirst(content(1))).await, [], "directories do not count");
    pair.write(&[Rows::Relations(Relation::ContentInRevision, direct)]).await;
    let found = places(&mut pair, Question::FindAll { id: content(1), limit: None }).await;
    if pair.flavor.with_path {
        assert!(found.contains(&(revision(2), b"f".to_vec())));
        assert!(found.contains(&(revision(3), b"\0\xff/\0\xff".to_vec())));
        assert!(found.contains(&(revision(1), b"///f"[1..].to_vec())));
        let same = found.iter().filter(|place| **place == (revision(3), b"p/f".to_vec()));
        assert_eq!(same.count(), 1, "one place, however it is found");
    }
    assert_eq!(places(&mut pair, Question::FindAll { id: content(2), limit: None }).await, []);
}

/// More identifiers in one question and one batch than a statement has parameters.
pub(crate) async fn many<S: Store>(mut pair: Pair<S>) {
    let id = |kind: u8, number: u32| {
        let mut id = super::super::sha1(kind, 0);
        id.0[4..8].copy_from_slice(&number.to_be_bytes());
        id
    };
    let many = pair.flavor.many;
    let ids = |kind: u8| (0..many).map(move |number| id(kind, number));
    pair.write_only(&[
        Rows::Contents(ids(0xc0).zip((0..).map(at)).collect()),
        bare_revisions(0..1),
        paths(&[b"p"]),
        Rows::Relations(
            Relation::ContentInRevision,
            ids(0xc0).map(|content| placed(content, revision(0), b"p")).collect(),
        ),
    ])
    .await;
    let Found::Dates(dates) = pair.ask(Question::Contents(ids(0xc0).collect())).await else {
        panic!("dates were asked for");
    };
    assert_eq!(dates.len(), many as usize);
    let question = Question::Relations {
        relation: Relation::ContentInRevision,
        ids: ids(0xc0).collect(),
        reverse: false,
    };
    let Found::Relations(rows) = pair.ask(question).await else {
        panic!("rows were asked for");
    };
    assert_eq!(rows.len(), many as usize);
    pair.ask(Question::Counts).await;
}
