//! How many rows a second the store takes. By hand:
//! `cargo test --release -p orchestrator-provenance --test sqlite_store rate -- --ignored --nocapture`

use std::time::Instant;

use bytes::Bytes;
use orchestrator_provenance::edge::sqlite::SqliteStore;
use orchestrator_provenance::method::Relation;
use orchestrator_provenance::row::{RelationRow, RevisionData, Rows, Sha1Git};
use orchestrator_provenance::store::Store;

use super::suite::at;

const ROWS: u32 = 100_000;

/// Rows in one transaction: what the workers of a busy server gather.
const BATCH: usize = 5_000;

/// Identifiers all over the tree, as real ones.
fn id(kind: u64, number: u32) -> Sha1Git {
    let mut id = [0; 20];
    fastrand::Rng::with_seed(kind << 32 | u64::from(number)).fill(&mut id);
    Sha1Git(id)
}

fn ids(kind: u64) -> impl Iterator<Item = Sha1Git> {
    (0..ROWS).map(move |number| id(kind, number))
}

fn path(number: u32) -> Bytes {
    format!("src/module_{}/part_{}/file_{number}.rs", number % 97, number % 1_009).into()
}

async fn measure(store: &mut SqliteStore, what: &str, batches: Vec<Rows>) {
    for round in ["new", "again"] {
        let started = Instant::now();
        for batch in batches.chunks(1) {
            store.write(batch).await.unwrap();
        }
        let rate = f64::from(ROWS) / started.elapsed().as_secs_f64();
        eprintln!("{what:<26} {round:<6} {rate:>10.0} rows/s");
    }
}

fn batches<T: Clone>(rows: impl Iterator<Item = T>, make: impl Fn(Vec<T>) -> Rows) -> Vec<Rows> {
    rows.collect::<Vec<_>>().chunks(BATCH).map(|rows| make(rows.to_vec())).collect()
}

#[tokio::test]
#[ignore = "measures: run it by hand, in release"]
async fn rows_a_second() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let mut store = SqliteStore::open(&dir.path().join("p.db")).unwrap();
    let dated = |kind| ids(kind).zip((0..).map(at));
    measure(&mut store, "content_add", batches(dated(0), Rows::Contents)).await;
    measure(&mut store, "directory_add", batches(dated(1), Rows::Directories)).await;
    let urls = ids(3).map(|id| (id, format!("https://forge.example/{id}")));
    measure(&mut store, "origin_add", batches(urls, Rows::Origins)).await;
    let revisions =
        ids(2).zip(ids(3)).map(|(id, origin)| (id, RevisionData { date: at(1), origin: Some(origin) }));
    measure(&mut store, "revision_add", batches(revisions, Rows::Revisions)).await;
    measure(&mut store, "location_add", batches((0..ROWS).map(path), Rows::Locations)).await;
    for relation in Relation::ALL {
        let kind = |entity| match entity {
            orchestrator_provenance::method::Entity::Content => 0,
            orchestrator_provenance::method::Entity::Directory => 1,
            orchestrator_provenance::method::Entity::Revision => 2,
            orchestrator_provenance::method::Entity::Origin => 3,
        };
        let rows = (0..ROWS).map(|number| RelationRow {
            src: id(kind(relation.source()), number),
            // A batch of a worker has few destinations.
            dst: id(kind(relation.destination()), number / 50 * 37 % ROWS),
            path: relation.has_path().then(|| path(number.wrapping_mul(7_919) % ROWS)),
        });
        let batches = batches(rows, |rows| Rows::Relations(relation, rows));
        measure(&mut store, relation.value(), batches).await;
    }
}
