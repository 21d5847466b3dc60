//! The store in PostgreSQL, on a real server: its schema, its rules in all flavors, other connections, a server that dies.

mod outage;
mod schema;

use std::cell::Cell;

use crate::conformance;
use orchestrator_harness::Postgres;
use orchestrator_provenance::{
    edge::postgres::{Flavor, PostgresStore, init},
    method::{Entity, Relation},
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::{Ask, Found, Occurrence, Question, Store, StoreError, Written},
};

/// Makes a database `name-flavor` with tables; gives its address.
async fn made(name: &str, flavor: Flavor) -> String {
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

/// Contents 1, 2; directories 11, 12; revisions 21..=24; origins 31, 32; and what lies where.
fn site() -> Vec<Rows> {
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

/// An occurrence of content 1.
fn found(revision: u32, date: Option<Date>, origin: Option<&str>, path: &'static str) -> Occurrence {
    Occurrence {
        content: id(1),
        revision: id(revision),
        date,
        origin: origin.map(str::to_owned),
        path: path.into(),
    }
}

/// All that a store answers, to be compared.
async fn everything(store: &mut PostgresStore) -> Vec<Found> {
    let mut questions = vec![Question::AllLocations, Question::Counts];
    questions.extend(Entity::ALL.map(Question::AllEntities));
    questions.extend(Relation::ALL.map(Question::AllRelations));
    let ids: Vec<Sha1Git> = (1..40).map(id).collect();
    questions.extend([
        Question::Contents(ids.clone()),
        Question::Directories(ids.clone()),
        Question::Revisions(ids.clone()),
        Question::Origins(ids),
        Question::FindAll { id: id(1), limit: None },
    ]);
    let mut answers = Vec::new();
    for question in questions {
        answers.push(store.read(&question).await.expect("an answer"));
    }
    answers
}

#[tokio::test]
async fn writing_twice_changes_nothing() {
    for flavor in Flavor::ALL {
        let mut store = connect(&made("twice", flavor).await).await;
        assert_eq!(store.write(&site()).await.expect("written"), Written::default(), "{flavor}");
        let once = everything(&mut store).await;
        assert_eq!(store.write(&site()).await.expect("written"), Written::default(), "{flavor}");
        assert_eq!(everything(&mut store).await, once, "{flavor}");
        // A row more beside old ones.
        let rows = vec![row(1, 21, Some("lib")), row(1, 22, Some("lib"))];
        store.write(&[Rows::Relations(Relation::ContentInRevision, rows)]).await.expect("written");
        let asked =
            Question::Relations { relation: Relation::ContentInRevision, ids: vec![id(22)], reverse: true };
        let path = flavor.has_paths().then_some("lib");
        let answer = store.read(&asked).await.expect("an answer");
        assert_eq!(answer, Found::Relations([row(1, 22, path)].into()), "{flavor}");
    }
}

#[tokio::test]
async fn rows_meet_by_the_rules() {
    let mut store = connect(&made("rules", Flavor::WithPath).await).await;
    store.write(&site()).await.expect("written");
    let later = [
        Rows::Contents(vec![(id(1), at(6)), (id(2), at(-62_000_000_000))]),
        Rows::Directories(vec![(id(11), at(2)), (id(12), Some(Date::MAX)), (id(13), Some(Date::MIN))]),
        Rows::Revisions(vec![
            revision(21, at(10), Some(32)),
            revision(22, at(7), None),
            revision(23, None, Some(99)),
        ]),
        Rows::Origins(vec![(id(31), "https://other".to_owned()), (id(33), "https://a".to_owned())]),
        Rows::Relations(
            Relation::ContentInRevision,
            vec![
                row(99, 21, Some("lib")),
                row(1, 99, Some("lib")),
                row(1, 22, Some("nowhere")),
                row(1, 23, None),
            ],
        ),
    ];
    let written = store.write(&later).await.expect("written");
    assert_eq!(written, Written { unregistered: 4, url_taken: 1, origin_unknown: 1 });
    let ids: Vec<Sha1Git> = (1..40).map(id).collect();
    let dates = store.read(&Question::Contents(ids.clone())).await.expect("dates");
    assert_eq!(dates, Found::Dates([(id(1), at(5).unwrap()), (id(2), at(-62_000_000_000).unwrap())].into()));
    let dates = store.read(&Question::Directories(ids.clone())).await.expect("dates");
    let expected = [(id(11), at(2).unwrap()), (id(12), Date::MAX), (id(13), Date::MIN)];
    assert_eq!(dates, Found::Dates(expected.into()));
    let revisions = store.read(&Question::Revisions(ids.clone())).await.expect("revisions");
    let expected = [revision(21, at(9), Some(32)), revision(22, at(7), None), revision(23, None, Some(32))];
    assert_eq!(revisions, Found::Revisions(expected.into()));
    let urls = store.read(&Question::Origins(ids)).await.expect("urls");
    assert_eq!(
        urls,
        Found::Urls([(id(31), "https://a".to_owned()), (id(32), "https://b".to_owned())].into())
    );
}

#[tokio::test]
async fn occurrences_are_ordered() {
    for flavor in Flavor::ALL {
        let mut store = connect(&made("occurrences", flavor).await).await;
        store.write(&site()).await.expect("written");
        let expected = if flavor.has_paths() {
            vec![
                found(22, at(8), None, "a/b"),
                found(21, at(9), Some("https://a"), "a/b"),
                found(21, at(9), Some("https://a"), "lib"),
                found(23, None, Some("https://b"), "lib/a/b"),
                found(24, None, None, "lib"),
            ]
        } else {
            vec![
                found(22, at(8), None, ""),
                found(21, at(9), Some("https://a"), ""),
                found(23, None, Some("https://b"), ""),
                found(24, None, None, ""),
            ]
        };
        let all = store.read(&Question::FindAll { id: id(1), limit: None }).await.expect("occurrences");
        assert_eq!(all, Found::Occurrences(expected.clone()), "{flavor}");
        let two = store.read(&Question::FindAll { id: id(1), limit: Some(2) }).await.expect("occurrences");
        assert_eq!(two, Found::Occurrences(expected[..2].to_vec()), "{flavor}");
        let first = store.read(&Question::FindFirst(id(1))).await.expect("occurrences");
        assert_eq!(first, Found::Occurrences(expected[1..2].to_vec()), "{flavor}");
        let none = store.read(&Question::FindFirst(id(2))).await.expect("occurrences");
        assert_eq!(none, Found::Occurrences(Vec::new()), "{flavor}");
    }
}

#[tokio::test]
async fn what_can_never_be_stored_is_refused_and_takes_its_transaction_along() {
    let mut store = connect(&made("refused", Flavor::WithPath).await).await;
    // Random, since a path that compresses well fits.
    let path: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(9000).collect();
    let contents = Rows::Contents(vec![(id(1), at(1))]);
    let nul = Rows::Origins(vec![(id(31), "https://\0".to_owned())]);
    for bad in [Rows::Locations(vec![path.into()]), nul] {
        let refused = store.write(&[contents.clone(), bad]).await.expect_err("refused");
        assert!(matches!(refused, StoreError::Refused(_)), "{refused}");
        let ids = store.read(&Question::AllEntities(Entity::Content)).await.expect("an answer");
        assert_eq!(ids, Found::Ids([].into()));
    }
    assert!(!store.is_closed());
    store.write(&[contents]).await.expect("the connection goes on");
}

#[tokio::test]
async fn two_connections_write_the_same_rows() {
    for flavor in Flavor::ALL {
        let dsn = made("both", flavor).await;
        let (mut one, mut two) = (connect(&dsn).await, connect(&dsn).await);
        let ids = || (0..300).map(id);
        let groups = |date: i64, shift: u32| {
            let mut rows: Vec<_> = (0..300).map(|n| row(n, (n + shift) % 300, Some("p"))).collect();
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
            assert_eq!(both, (Ok(Written::default()), Ok(Written::default())), "{flavor} round {round}");
        }
        let dates = one.read(&Question::Contents(ids().collect())).await.expect("dates");
        assert_eq!(dates, Found::Dates(ids().map(|id| (id, at(-5).unwrap())).collect()), "{flavor}");
        // Each connection's own pairs and the common ones, stored once.
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
        connect(&made(&format!("conforms-{}", opened.get()), flavor).await).await
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
