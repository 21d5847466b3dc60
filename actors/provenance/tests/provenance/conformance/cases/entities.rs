//! Origins, locations, and rows that are refused (contract §6, §8).

use bytes::Bytes;
use orchestrator_provenance::row::Rows;
use orchestrator_provenance::store::{Found, Question, Store, Written};

use super::super::{Pair, at, bare_revisions, content, data, origin, paths, placed, revision};
use orchestrator_provenance::method::Relation;

fn urls(rows: &[(u8, &str)]) -> Rows {
    Rows::Origins(rows.iter().map(|(number, url)| (origin(*number), (*url).to_owned())).collect())
}

pub(crate) async fn empty_store<S: Store>(mut pair: Pair<S>) {
    pair.compare().await;
    assert_eq!(pair.write(&[]).await, Some(Written::default()));
    let nothing: Vec<_> = orchestrator_provenance::method::Method::ALL.into_iter().map(Rows::none).collect();
    assert_eq!(pair.write(&nothing).await, Some(Written::default()));
}

pub(crate) async fn first_url_stays<S: Store>(mut pair: Pair<S>) {
    pair.write(&[urls(&[(1, "https://a"), (2, "https://ä/%20?q='\"")])]).await;
    pair.write(&[urls(&[(1, "https://b"), (2, "https://ä/%20?q='\""), (3, "")])]).await;
    // Not taken: the origin that came with it kept its first.
    assert_eq!(pair.write(&[urls(&[(4, "https://b")])]).await, Some(Written::default()));
    let Found::Urls(found) = pair.ask(Question::Origins(vec![origin(1)])).await else {
        panic!("urls were asked for");
    };
    assert_eq!(found[&origin(1)], "https://a");
}

pub(crate) async fn taken_url_drops_the_origin<S: Store>(mut pair: Pair<S>) {
    pair.write(&[urls(&[(1, "https://a")])]).await;
    let rows = [urls(&[(2, "https://a"), (3, "https://c")])];
    for _ in 0..2 {
        let written = pair.write(&rows).await.expect("not refused");
        assert_eq!(written.url_taken, u64::from(pair.flavor.urls_unique));
    }
    // Within one batch the first of two is the one that has it.
    pair.write(&[urls(&[(9, "https://d"), (8, "https://d")])]).await;
    // It is there already, so it is not dropped.
    let written = pair.write(&[urls(&[(3, "https://a")])]).await;
    assert_eq!(written, Some(Written::default()));
}

pub(crate) async fn unknown_origin_is_none<S: Store>(mut pair: Pair<S>) {
    let rows = [Rows::Revisions(vec![
        (revision(1), data(at(1), Some(origin(1)))),
        (revision(2), data(None, Some(origin(1)))),
        (revision(3), data(None, None)),
    ])];
    let written = pair.write(&rows).await.expect("not refused");
    assert_eq!(written, Written { origin_unknown: 2, ..Written::default() });
    pair.write(&[urls(&[(1, "https://a")])]).await;
    // The same rows, delivered again when the origin is there, now find it.
    assert_eq!(pair.write(&rows).await, Some(Written::default()));
}

/// Any bytes are a path, up to 2.7 kB.
pub(crate) async fn odd_paths<S: Store>(mut pair: Pair<S>) {
    // Bytes that do not compress: an index that compresses its keys would take more of others.
    let mut noise = vec![0; 2_690];
    fastrand::Rng::with_seed(7).fill(&mut noise);
    let longest = [b'x'; 2_704];
    let odd: Vec<&[u8]> = vec![
        b"",
        b".",
        b"..",
        b"/",
        b"a",
        b"a\0b",
        b"a\0",
        b"\0",
        b"\xff\xfe",
        b"caf\xe9",
        "café".as_bytes(),
        b"\\x61",
        b"a\nb\t'\"%$",
        &noise,
        &longest,
    ];
    pair.write(&[
        paths(&odd),
        Rows::Contents(vec![(content(1), None)]),
        bare_revisions(0..1),
        Rows::Relations(
            Relation::ContentInRevision,
            odd.iter().map(|path| placed(content(1), revision(0), path)).collect(),
        ),
    ])
    .await;
    let Found::Occurrences(found) = pair.ask(Question::FindAll { id: content(1), limit: None }).await else {
        panic!("occurrences were asked for");
    };
    assert_eq!(found.len(), if pair.flavor.with_path { odd.len() } else { 1 });
    pair.write(&[paths(&odd)]).await;
}

pub(crate) async fn refused_rows_leave_nothing<S: Store>(mut pair: Pair<S>) {
    pair.write(&[Rows::Contents(vec![(content(1), at(5))]), paths(&[b"a"])]).await;
    let good = || Rows::Contents(vec![(content(1), at(3)), (content(2), at(3))]);
    for bad in [
        paths(&[b"b", &[b'x'; 2_705]]),
        Rows::Locations(vec![Bytes::from(vec![0; 100_000]), Bytes::from_static(b"b")]),
        urls(&[(1, "https://a"), (2, "https://\0")]),
        urls(&[(1, &"x".repeat(2_705))]),
    ] {
        assert_eq!(pair.write(&[good(), bad.clone()]).await, None);
        assert_eq!(pair.write(&[bad, good()]).await, None);
    }
    let Found::Dates(dates) = pair.ask(Question::Contents(vec![content(1), content(2)])).await else {
        panic!("dates were asked for");
    };
    assert_eq!(dates.into_iter().collect::<Vec<_>>(), [(content(1), at(5).expect("a date"))]);
    // And the store goes on.
    pair.write(&[good()]).await;
}
