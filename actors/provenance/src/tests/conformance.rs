//! Conformance suite of all stores: random sequences and large batches against the [`Model`].
//!
//! `ORCHESTRATOR_STORE_SEEDS` sets the number of sequences, `ORCHESTRATOR_TEST_SEED` repeats one of
//! them.

use bytes::Bytes;

use crate::{
    method::Relation,
    row::{Date, RelationRow, RevisionData, Rows, Sha1Git},
    store::{OmittedRows, Query, QueryResult, Store, StoreError},
};

/// Number of comparisons after which the queries about single identifiers were made for each of them.
const TURNS: usize = 4;

mod listings;
mod model;
mod random;

pub(crate) use listings::listed;
pub(crate) use model::{Flavor, Model};

/// Runs the suite. `open` returns an empty store at each call.
pub(crate) async fn run<S: Store>(flavor: Flavor, open: impl AsyncFn() -> S) {
    run_random(flavor, &open).await;
    let store = open().await;
    many(Pair {
        case: "many",
        flavor,
        store,
        model: Model::new(flavor),
        known: KnownIds::default(),
        turn: 0,
    })
    .await;
}

/// Runs random sequences.
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
            known: KnownIds::default(),
            turn: 0,
        };
        // Printed last on a failure: the command that repeats it.
        eprintln!("ORCHESTRATOR_TEST_SEED={seed}");
        random::sequence(pair, seed).await;
    }
}

/// Writes and queries more identifiers at once than a statement has parameters.
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
            ids(0xc0).map(|content| with_path(content, revision(0), b"p")).collect(),
        ),
    ])
    .await;
    let QueryResult::Dates(dates) = pair.ask(Query::Contents(ids(0xc0).collect())).await else {
        panic!("dates were asked for");
    };
    assert_eq!(dates.len(), many as usize);
    pair.ask(Query::Counts).await;
    listings::compare_many(&mut pair).await;
}

/// Store with its model.
pub(crate) struct Pair<S> {
    pub(crate) case: &'static str,
    pub(crate) flavor: Flavor,
    pub(crate) store: S,
    pub(crate) model: Model,
    known: KnownIds,
    /// Number of comparisons so far.
    turn: usize,
}

/// Identifiers written or referenced so far, for the queries.
#[derive(Default)]
struct KnownIds {
    ids: std::collections::BTreeSet<Sha1Git>,
}

impl<S: Store> Pair<S> {
    /// Writes to both, which must agree on the result; then compares all queries.
    pub(crate) async fn write(&mut self, groups: &[Rows]) -> Option<OmittedRows> {
        let omitted = self.write_only(groups).await;
        self.compare().await;
        omitted
    }

    /// Writes to both without comparing the stored rows.
    pub(crate) async fn write_only(&mut self, groups: &[Rows]) -> Option<OmittedRows> {
        groups.iter().for_each(|rows| self.known.record_ids(rows));
        let expected = self.model.write(groups);
        let got = match self.store.write(groups).await {
            Ok(omitted) => Some(omitted),
            Err(StoreError::Refused(_) | StoreError::Undecided(_)) => None,
            Err(StoreError::Unavailable(reason)) => panic!("{}: the store is away: {reason}", self.case),
        };
        assert_eq!(got, expected, "{}: what became of {groups:?}", self.case);
        got
    }

    /// Compares one query.
    pub(crate) async fn ask(&mut self, query: Query) -> QueryResult {
        let mut expected = self.model.read(&query);
        let mut got = self.store.read(&query).await.expect("an answer");
        if let (QueryResult::Counts(expected), QueryResult::Counts(got)) = (&mut expected, &mut got) {
            for counts in [expected, got] {
                counts.retain(|table, _| self.is_counted(table));
            }
        }
        assert_eq!(got, expected, "{}: {query:?}", self.case);
        got
    }

    fn is_counted(&self, table: &str) -> bool {
        match table {
            "content" | "directory" | "revision" | "origin" => true,
            "location" => self.flavor.locations,
            _ => self.flavor.counts_relations,
        }
    }

    /// Compares all queries: those about a single identifier for one of [`TURNS`] parts of the identifiers,
    /// the next one at each call.
    pub(crate) async fn compare(&mut self) {
        let turn = self.turn % TURNS;
        self.turn += 1;
        let unknown = sha1(0xee, 0xee);
        let ids: Vec<_> = self.known.ids.iter().copied().chain([unknown]).collect();
        // Half of the identifiers, and one twice.
        let some: Vec<_> = ids.iter().step_by(2).chain(ids.last()).copied().collect();
        for ids in [&ids, &some, &Vec::new()] {
            self.ask(Query::Contents(ids.clone())).await;
            self.ask(Query::Directories(ids.clone())).await;
            self.ask(Query::Revisions(ids.clone())).await;
            self.ask(Query::Origins(ids.clone())).await;
        }
        self.ask(Query::Counts).await;
        let single: Vec<_> = ids.iter().skip(turn).step_by(TURNS).copied().collect();
        listings::compare(self, &single, 1 + turn).await;
        let contents: Vec<_> = self.model.contents.keys().copied().chain([unknown]).collect();
        for id in contents.into_iter().skip(turn).step_by(TURNS) {
            self.ask(Query::FindFirst(id)).await;
            for limit in [None, Some(0), Some(1), Some(3), Some(u64::MAX)] {
                self.ask(Query::FindAll { id, limit }).await;
            }
        }
    }
}

impl KnownIds {
    fn record_ids(&mut self, rows: &Rows) {
        match rows {
            Rows::Contents(rows) | Rows::Directories(rows) => self.ids.extend(rows.iter().map(|row| row.0)),
            Rows::Revisions(rows) => self.ids.extend(rows.iter().map(|row| row.0)),
            Rows::Origins(rows) => self.ids.extend(rows.iter().map(|row| row.0)),
            Rows::Locations(_) => {}
            Rows::Relations(_, rows) => self.ids.extend(rows.iter().flat_map(|row| [row.src, row.dst])),
        }
    }
}

/// The kind is the first byte, the number the last.
pub(crate) fn sha1(kind: u8, number: u8) -> Sha1Git {
    let mut id = [0; 20];
    id[0] = kind;
    id[19] = number;
    Sha1Git(id)
}

pub(crate) fn content(number: u8) -> Sha1Git {
    sha1(0xc0, number)
}

pub(crate) fn directory(number: u8) -> Sha1Git {
    sha1(0xd0, number)
}

pub(crate) fn revision(number: u8) -> Sha1Git {
    sha1(0x00, number)
}

pub(crate) fn origin(number: u8) -> Sha1Git {
    sha1(0x0f, number)
}

/// Microseconds after 1970.
pub(crate) fn at(micros: i64) -> Option<Date> {
    Some(Date::from_micros(micros).expect("a date in range"))
}

pub(crate) fn data(date: Option<Date>, origin: Option<Sha1Git>) -> RevisionData {
    RevisionData { date, origin }
}

/// Revisions without data.
pub(crate) fn bare_revisions(numbers: std::ops::Range<u8>) -> Rows {
    Rows::Revisions(numbers.map(|number| (revision(number), RevisionData::default())).collect())
}

pub(crate) fn paths(paths: &[&[u8]]) -> Rows {
    Rows::Locations(paths.iter().map(|path| Bytes::copy_from_slice(path)).collect())
}

pub(crate) fn with_path(src: Sha1Git, dst: Sha1Git, path: &[u8]) -> RelationRow {
    RelationRow { src, dst, path: Some(Bytes::copy_from_slice(path)) }
}

pub(crate) fn without_path(src: Sha1Git, dst: Sha1Git) -> RelationRow {
    RelationRow { src, dst, path: None }
}
