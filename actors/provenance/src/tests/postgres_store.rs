//! PostgreSQL store with a real server: schema, rules in all flavors, concurrent connections.

mod schema;
mod tls;

use std::cell::Cell;

use orchestrator_harness::Postgres;

use crate::{
    edge::postgres::{Flavor, PostgresStore, init},
    listing::Listing,
    method::{Entity, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::{ListedRows, OmittedRows, Query, QueryResult, Store, StoreError, StoreReader},
    tests::conformance::{self, listed},
};

/// Creates a database `name-flavor` with tables; returns its address.
async fn create_database(name: &str, flavor: Flavor) -> String {
    let dsn = Postgres::shared().create_database(&format!("{name}-{flavor}"));
    init(&dsn, flavor).await.expect("tables");
    dsn
}

async fn connect(dsn: &str) -> PostgresStore {
    PostgresStore::connect(dsn).await.expect("a connection")
}

fn id(n: u32) -> Sha1Git {
    let mut id = [7; 20];
    id[..4].copy_from_slice(&n.to_be_bytes());
    Sha1Git(id)
}

fn at(seconds: i64) -> Option<Date> {
    Date::from_micros(seconds * 1_000_000 + 123_456)
}

fn row(src: u32, dst: u32, path: Option<&'static str>) -> RelationRow {
    RelationRow { src: id(src), dst: id(dst), path: path.map(|path| path.into()) }
}

fn revision(n: u32, date: Option<Date>, origin: Option<u32>) -> (Sha1Git, RevisionData) {
    (id(n), RevisionData { date, origin: origin.map(id) })
}

/// Contents 1, 2; directories 11, 12; revisions 21..=24; origins 31, 32; and relations between them.
fn sample_rows() -> Vec<Rows> {
    vec![
        Rows::Origins(vec![(id(31), "https://a".to_owned()), (id(32), "https://b".to_owned())]),
        Rows::Locations(["a/b", ".", "", "lib"].map(Into::into).to_vec()),
        Rows::Contents(vec![(id(2), None), (id(1), at(5))]),
        Rows::Directories(vec![(id(11), at(3)), (id(12), None)]),
        Rows::Revisions(vec![
            revision(21, at(9), Some(31)),
            revision(22, at(8), None),
            revision(23, None, Some(32)),
            revision(24, None, None),
        ]),
        Rows::Relations(
            Relation::ContentInRevision,
            vec![row(1, 21, Some("lib")), row(1, 21, Some("a/b")), row(1, 24, Some("lib"))],
        ),
        Rows::Relations(
            Relation::ContentInDirectory,
            vec![row(1, 11, Some("a/b")), row(1, 12, Some("a/b")), row(2, 12, Some(""))],
        ),
        Rows::Relations(
            Relation::DirectoryInRevision,
            vec![row(11, 22, Some(".")), row(12, 23, Some("lib"))],
        ),
        Rows::Relations(Relation::RevisionInOrigin, vec![row(21, 31, None), row(22, 32, None)]),
        Rows::Relations(Relation::RevisionBeforeRevision, vec![row(22, 21, None)]),
    ]
}

#[tokio::test]
async fn a_refused_row_rolls_back_its_transaction() {
    let mut store = connect(&create_database("refused", Flavor::WithPath).await).await;
    // Random, since an index entry may be compressed.
    let path: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(9000).collect();
    let contents = Rows::Contents(vec![(id(1), at(1))]);
    let nul = Rows::Origins(vec![(id(31), "https://\0".to_owned())]);
    for bad in [Rows::Locations(vec![path.into()]), nul] {
        let refused = store.write(&[contents.clone(), bad]).await.expect_err("refused");
        assert!(matches!(refused, StoreError::Refused(_)), "{refused}");
        let listing = Listing::Entities(Entity::Content);
        let ids = listed(listing, async |query| store.read(&query).await.expect("a page")).await;
        assert_eq!(ids, ListedRows::Ids([].into()));
    }
    store.write(&[contents]).await.expect("the connection goes on");
}

#[tokio::test]
async fn two_connections_write_the_same_rows() {
    for flavor in Flavor::ALL {
        let dsn = create_database("both", flavor).await;
        let (mut one, mut two) = (connect(&dsn).await, connect(&dsn).await);
        let ids = || (0..300).map(id);
        let groups = |date: i64, offset: u32| {
            let mut rows: Vec<_> = (0..300).map(|n| row(n, (n + offset) % 300, Some("p"))).collect();
            rows.extend((0..300).map(|n| row(n, n, Some("p"))));
            fastrand::shuffle(&mut rows);
            let mut contents: Vec<_> = ids().map(|id| (id, at(date))).collect();
            fastrand::shuffle(&mut contents);
            let revisions = ids().map(|id| (id, RevisionData { date: at(date), origin: None })).collect();
            vec![
                Rows::Locations(vec!["p".into()]),
                Rows::Contents(contents),
                Rows::Revisions(revisions),
                Rows::Relations(Relation::ContentInRevision, rows),
            ]
        };
        for round in 1..6 {
            let (a, b) = (groups(i64::from(round), round), groups(-i64::from(round), round + 5));
            let both = futures_util::future::join(one.write(&a), two.write(&b)).await;
            assert_eq!(
                both,
                (Ok(OmittedRows::default()), Ok(OmittedRows::default())),
                "{flavor} round {round}"
            );
        }
        let dates = one.read(&Query::Contents(ids().collect())).await.expect("dates");
        assert_eq!(dates, QueryResult::Dates(ids().map(|id| (id, at(-5).unwrap())).collect()), "{flavor}");
        // The pairs of each connection and the common ones, stored once.
        let stored = if flavor.is_denormalized() { "sum(cardinality(revision))" } else { "count(*)" };
        let count = Postgres::shared().script(&dsn, &format!("SELECT {stored} FROM content_in_revision"));
        assert_eq!(count, "3300", "{flavor}");
    }
}

async fn conforms(flavor: Flavor) {
    let opened = Cell::new(0);
    let lacks = conformance::Flavor {
        with_path: flavor.has_paths(),
        locations: flavor.has_paths(),
        counts_relations: !flavor.is_denormalized(),
        sequences_max: 40,
        ..conformance::Flavor::FULL
    };
    conformance::run(lacks, async || {
        opened.set(opened.get() + 1);
        connect(&create_database(&format!("conforms-{}", opened.get()), flavor).await).await
    })
    .await;
}

#[tokio::test]
async fn with_path_conforms() {
    conforms(Flavor::WithPath).await;
}

#[tokio::test]
async fn without_path_conforms() {
    conforms(Flavor::WithoutPath).await;
}

#[tokio::test]
async fn with_path_denormalized_conforms() {
    conforms(Flavor::WithPathDenormalized).await;
}

#[tokio::test]
async fn without_path_denormalized_conforms() {
    conforms(Flavor::WithoutPathDenormalized).await;
}
