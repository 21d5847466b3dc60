//! Promises of every store, whatever holds its rows: random sequences against the [`Model`], and many rows at once.
//!
//! `ORCHESTRATOR_STORE_SEEDS` sets how many sequences run, `ORCHESTRATOR_TEST_SEED` repeats one of them.

use bytes::Bytes;
use orchestrator_provenance::method::{Entity, Relation};
use orchestrator_provenance::row::{Date, RelationRow, RevisionData, Rows, Sha1Git};
use orchestrator_provenance::store::{Found, Question, Store, StoreError, Written};

mod model;
mod random;

pub(crate) use model::{Flavor, Model};

/// Runs everything. `open` gives an empty store each time.
pub(crate) async fn run<S: Store>(flavor: Flavor, open: impl AsyncFn() -> S) {
    run_random(flavor, &open).await;
    let store = open().await;
    many(Pair { case: "many", flavor, store, model: Model::new(flavor), known: Known::default() }).await;
}

/// Random sequences.
pub(crate) async fn run_random<S: Store>(flavor: Flavor, open: &impl AsyncFn() -> S) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("ORCHESTRATOR_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ORCHESTRATOR_STORE_SEEDS").unwrap_or(8).min(flavor.sequences_max),
    };
    for seed in seeds {
        let pair = Pair {
            case: "random",
            flavor,
            store: open().await,
            model: Model::new(flavor),
            known: Known::default(),
        };
        // What a failure prints last: how to see it again.
        eprintln!("ORCHESTRATOR_TEST_SEED={seed}");
        random::sequence(pair, seed).await;
    }
}

/// More identifiers in one question and one batch than a statement has parameters.
async fn many<S: Store>(mut pair: Pair<S>) {
    let id = |kind: u8, number: u32| {
        let mut id = sha1(kind, 0);
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

/// A store, and what it should hold.
pub(crate) struct Pair<S> {
    pub(crate) case: &'static str,
    pub(crate) flavor: Flavor,
    pub(crate) store: S,
    pub(crate) model: Model,
    known: Known,
}

/// All identifiers that were written or named, to ask about.
#[derive(Default)]
struct Known {
    ids: std::collections::BTreeSet<Sha1Git>,
}

impl<S: Store> Pair<S> {
    /// Writes to both, which must agree on what became of it; then all questions.
    pub(crate) async fn write(&mut self, groups: &[Rows]) -> Option<Written> {
        let written = self.write_only(groups).await;
        self.compare().await;
        written
    }

    /// Writes to both without looking at what is stored then.
    pub(crate) async fn write_only(&mut self, groups: &[Rows]) -> Option<Written> {
        groups.iter().for_each(|rows| self.known.note(rows));
        let expected = self.model.write(groups);
        let got = match self.store.write(groups).await {
            Ok(written) => Some(written),
            Err(StoreError::Refused(_)) => None,
            Err(StoreError::Away(reason)) => panic!("{}: the store is away: {reason}", self.case),
        };
        assert_eq!(got, expected, "{}: what became of {groups:?}", self.case);
        got
    }

    /// One question to both.
    pub(crate) async fn ask(&mut self, question: Question) -> Found {
        let mut expected = self.model.read(&question);
        let mut got = self.store.read(&question).await.expect("an answer");
        if let (Found::Counts(expected), Found::Counts(got)) = (&mut expected, &mut got) {
            for counts in [expected, got] {
                counts.retain(|table, _| self.is_counted(table));
            }
        }
        assert_eq!(got, expected, "{}: {question:?}", self.case);
        got
    }

    fn is_counted(&self, table: &str) -> bool {
        match table {
            "content" | "directory" | "revision" | "origin" => true,
            "location" => self.flavor.locations,
            _ => self.flavor.counts_relations,
        }
    }

    /// Every question.
    pub(crate) async fn compare(&mut self) {
        let unknown = sha1(0xee, 0xee);
        let ids: Vec<_> = self.known.ids.iter().copied().chain([unknown]).collect();
        // Half of them, and one twice.
        let some: Vec<_> = ids.iter().step_by(2).chain(ids.last()).copied().collect();
        for ids in [&ids, &some, &Vec::new()] {
            self.ask(Question::Contents(ids.clone())).await;
            self.ask(Question::Directories(ids.clone())).await;
            self.ask(Question::Revisions(ids.clone())).await;
            self.ask(Question::Origins(ids.clone())).await;
            for relation in Relation::ALL {
                for reverse in [false, true] {
                    self.ask(Question::Relations { relation, ids: ids.clone(), reverse }).await;
                }
            }
        }
        for entity in Entity::ALL {
            self.ask(Question::AllEntities(entity)).await;
        }
        for relation in Relation::ALL {
            self.ask(Question::AllRelations(relation)).await;
        }
        self.ask(Question::AllLocations).await;
        self.ask(Question::Counts).await;
        let Found::Ids(contents) = self.model.read(&Question::AllEntities(Entity::Content)) else {
            unreachable!("identifiers were asked for");
        };
        for id in contents.into_iter().chain([unknown]) {
            self.ask(Question::FindFirst(id)).await;
            for limit in [None, Some(0), Some(1), Some(3), Some(u64::MAX)] {
                self.ask(Question::FindAll { id, limit }).await;
            }
        }
    }
}

impl Known {
    fn note(&mut self, rows: &Rows) {
        match rows {
            Rows::Contents(rows) | Rows::Directories(rows) => self.ids.extend(rows.iter().map(|row| row.0)),
            Rows::Revisions(rows) => self.ids.extend(rows.iter().map(|row| row.0)),
            Rows::Origins(rows) => self.ids.extend(rows.iter().map(|row| row.0)),
            Rows::Locations(_) => {}
            Rows::Relations(_, rows) => self.ids.extend(rows.iter().flat_map(|row| [row.src, row.dst])),
        }
    }
}

/// An identifier of a kind (its first byte) with a number (its last).
pub(crate) fn sha1(kind: u8, number: u8) -> Sha1Git {
    let mut id = [0; 20];
    id[0] = kind;
    id[19] = number;
    Sha1Git(id)
}

/// Content `number`.
pub(crate) fn content(number: u8) -> Sha1Git {
    sha1(0xc0, number)
}

/// Directory `number`.
pub(crate) fn directory(number: u8) -> Sha1Git {
    sha1(0xd0, number)
}

/// Revision `number`.
pub(crate) fn revision(number: u8) -> Sha1Git {
    sha1(0x00, number)
}

/// Origin `number`.
pub(crate) fn origin(number: u8) -> Sha1Git {
    sha1(0x0f, number)
}

/// So many microseconds after 1970.
pub(crate) fn at(micros: i64) -> Option<Date> {
    Some(Date::from_micros(micros).expect("a date in range"))
}

/// A row of revisions.
pub(crate) fn data(date: Option<Date>, origin: Option<Sha1Git>) -> RevisionData {
    RevisionData { date, origin }
}

/// Revisions without anything known of them.
pub(crate) fn bare_revisions(numbers: std::ops::Range<u8>) -> Rows {
    Rows::Revisions(numbers.map(|number| (revision(number), RevisionData::default())).collect())
}

/// Paths.
pub(crate) fn paths(paths: &[&[u8]]) -> Rows {
    Rows::Locations(paths.iter().map(|path| Bytes::copy_from_slice(path)).collect())
}

/// A row with a path.
pub(crate) fn placed(src: Sha1Git, dst: Sha1Git, path: &[u8]) -> RelationRow {
    RelationRow { src, dst, path: Some(Bytes::copy_from_slice(path)) }
}

/// A row without one.
pub(crate) fn bare(src: Sha1Git, dst: Sha1Git) -> RelationRow {
    RelationRow { src, dst, path: None }
}
