//! Random writes over few identifiers, so that keys repeat.

use std::collections::BTreeMap;

use bytes::Bytes;
use fastrand::Rng;

use super::{Pair, TURNS, at, content, directory, origin, revision};
use crate::{
    method::{Entity, Method, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::Store,
};

const WRITES: usize = 25;
const PATHS: [&[u8]; 9] = [b"", b".", b"..", b"a", b"a/b", b"b", b"\0", b"\xff/\xc3", b"a\0b"];
const URLS: [&str; 4] = ["https://a", "https://b", "https://c", ""];

/// Runs one sequence of writes, each followed by a comparison, and compares everything at the end.
pub(crate) async fn sequence<S: Store>(mut pair: Pair<S>, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut last = Vec::new();
    for _ in 0..WRITES {
        // Redelivered batches are unchanged.
        if last.is_empty() || rng.u8(..6) > 0 {
            last = (0..rng.usize(1..6)).map(|_| group(&mut rng)).collect();
        }
        pair.write(&last).await;
    }
    for _ in 1..TURNS {
        pair.compare().await;
    }
}

fn group(rng: &mut Rng) -> Rows {
    let method = Method::ALL[rng.usize(..Method::ALL.len())];
    let count = rng.usize(..8);
    match method {
        Method::ContentAdd => Rows::Contents(keyed(count, || (content(rng.u8(..5)), date(rng)))),
        Method::DirectoryAdd => Rows::Directories(keyed(count, || (directory(rng.u8(..4)), date(rng)))),
        Method::RevisionAdd => Rows::Revisions(keyed(count, || {
            let origin = rng.bool().then(|| origin(rng.u8(..4)));
            (revision(rng.u8(..5)), RevisionData { date: date(rng), origin })
        })),
        Method::OriginAdd => Rows::Origins(keyed(count, || {
            let url = if rng.u8(..100) == 0 { "nul\0" } else { URLS[rng.usize(..URLS.len())] };
            (origin(rng.u8(..4)), url.to_owned())
        })),
        Method::LocationAdd => Rows::Locations(
            keyed(count, || {
                let long = rng.u8(..100) == 0;
                (if long { Bytes::from(vec![b'x'; 2_705]) } else { path(rng) }, ())
            })
            .into_iter()
            .map(|(path, ())| path)
            .collect(),
        ),
        Method::RelationAdd(relation) => {
            let rows = keyed(count * 2, || (relation_row(rng, relation), ()));
            Rows::Relations(relation, rows.into_iter().map(|(row, ())| row).collect())
        }
    }
}

/// Rows in random order, with each key once.
fn keyed<K: Ord, V>(count: usize, mut row: impl FnMut() -> (K, V)) -> Vec<(K, V)> {
    let rows: BTreeMap<K, V> = (0..count).map(|_| row()).collect();
    let mut rows: Vec<_> = rows.into_iter().collect();
    if count.is_multiple_of(2) {
        rows.reverse();
    }
    rows
}

fn date(rng: &mut Rng) -> Option<Date> {
    match rng.u8(..4) {
        0 => None,
        1 => at(rng.i64(-4..4)),
        2 => at(rng.i64(-(1 << 33)..1 << 33) * 1_000_000 + rng.i64(0..1_000_000)),
        _ => at(rng.i64(-2..2) * 1_000_000),
    }
}

fn path(rng: &mut Rng) -> Bytes {
    Bytes::from_static(PATHS[rng.usize(..PATHS.len())])
}

fn id(rng: &mut Rng, entity: Entity) -> Sha1Git {
    match entity {
        Entity::Content => content(rng.u8(..5)),
        Entity::Directory => directory(rng.u8(..4)),
        Entity::Revision => revision(rng.u8(..5)),
        Entity::Origin => origin(rng.u8(..4)),
    }
}

fn relation_row(rng: &mut Rng, relation: Relation) -> RelationRow {
    let path = relation.has_path().then(|| path(rng));
    RelationRow { src: id(rng, relation.source()), dst: id(rng, relation.destination()), path }
}
