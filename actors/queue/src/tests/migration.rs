//! A queue that moves from one store to the other and back (CONTRACT QD18).

mod dump_file;
mod refusals;

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use fastrand::Rng;
use orchestrator_harness::wait_for;
use orchestrator_queue_rules::storage::{
    Batch, Deletion, FailedAttempts, Limit, Limits, OfferedJob, Questions, RunId, Storage, StorageError,
    StorageErrorKind, Upsert,
};
use orchestrator_supervise::PauseSpan;

use super::store::*;
use orchestrator_queue_postgres::{PostgresSource, PostgresTarget, Settings};
use orchestrator_queue_sqlite::{Inspector, Options, SqliteSource, SqliteTarget, pause_file};
use orchestrator_queue_store::Maintenance as _;
use orchestrator_queue_store::migration::{Counters, Row, Side, Source, Table, Take, Target, Value};

use crate::migration::{CopyReport, DumpFile, Names, dump, migrate};

const PATHS: [&str; 8] = ["a1", "a2", "a_", "b1", "b2", "c%", "d\\", "é1"];
const TIMEOUT: Duration = Duration::from_secs(60);

fn names() -> Names {
    let [source, target, command] = ["source", "target", "the command"].map(str::to_owned);
    Names { source, target, command }
}

/// Opens a file as a source. A process that another test is starting may have its lock.
fn sqlite_source(path: &Path) -> SqliteSource {
    wait_for("the lock of the database", || match SqliteSource::open(path) {
        Err(StorageError { kind: StorageErrorKind::Locked, .. }) => None,
        opened => Some(opened.unwrap()),
    })
}

fn sqlite_target(path: &Path) -> SqliteTarget {
    wait_for("the lock of the database", || match SqliteTarget::open(path) {
        Err(StorageError { kind: StorageErrorKind::Locked, .. }) => None,
        opened => Some(opened.unwrap()),
    })
}

/// Opens a schema as a source as soon as the server has seen the end of the former session.
fn postgres_source(settings: &Settings) -> PostgresSource {
    wait_for("the end of the former session", || {
        match PostgresSource::open(&settings.address, &settings.schema) {
            Err(error) if error.kind == StorageErrorKind::NotMigrated && error.text.contains("in use") => {
                None
            }
            opened => Some(opened.unwrap()),
        }
    })
}

fn open_target(settings: &Settings) -> Result<PostgresTarget, StorageError> {
    let Settings { address, schema, instance, handouts, .. } = settings;
    PostgresTarget::open(address, schema, instance.clone(), handouts.clone())
}

fn postgres_target(settings: &Settings) -> PostgresTarget {
    wait_for("the end of the former session", || match open_target(settings) {
        Err(error) if error.kind == StorageErrorKind::NotMigrated && error.text.contains("in use") => None,
        opened => Some(opened.unwrap()),
    })
}

/// Target that fails before its `left`-th transaction, as if the process were killed there.
struct Interrupted<'a> {
    target: &'a mut dyn Target,
    left: usize,
}

impl Interrupted<'_> {
    fn step(&mut self) -> Result<(), StorageError> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| StorageError::new(StorageErrorKind::NotMigrated, "killed"))?;
        Ok(())
    }
}

impl Side for Interrupted<'_> {
    fn count(&mut self, table: Table) -> Result<u64, StorageError> {
        self.target.count(table)
    }
    fn read(&mut self, table: Table, take: &mut Take<'_>) -> Result<(), StorageError> {
        self.target.read(table, take)
    }
}

impl Target for Interrupted<'_> {
    fn refusal(&self, table: Table, row: &[Value]) -> Option<String> {
        self.target.refusal(table, row)
    }
    fn begin(&mut self, mark: &str, oldest_attempt: Option<i64>) -> Result<(), StorageError> {
        self.step()?;
        self.target.begin(mark, oldest_attempt)
    }
    fn write(&mut self, table: Table, rows: &[Row]) -> Result<(), StorageError> {
        self.step()?;
        self.target.write(table, rows)
    }
    fn complete(&mut self, counters: &Counters, derived: &mut dyn FnMut(u64)) -> Result<(), StorageError> {
        self.step()?;
        self.target.complete(counters, derived)
    }
}

/// Migrates a file to a schema; an attempt for each of `kills` ends before a transaction.
fn to_postgres(path: &Path, settings: &Settings, kills: &[usize]) -> CopyReport {
    for left in kills {
        let mut target = postgres_target(settings);
        let mut target = Interrupted { target: &mut target, left: *left };
        assert!(migrate(&mut sqlite_source(path), &mut target, &names()).is_err(), "{left}");
    }
    migrate(&mut sqlite_source(path), &mut postgres_target(settings), &names()).unwrap()
}

/// As [`to_postgres`], from a schema to a file.
fn to_sqlite(settings: &Settings, path: &Path, kills: &[usize]) -> CopyReport {
    for left in kills {
        let mut target = sqlite_target(path);
        let mut target = Interrupted { target: &mut target, left: *left };
        assert!(migrate(&mut postgres_source(settings), &mut target, &names()).is_err(), "{left}");
    }
    migrate(&mut postgres_source(settings), &mut sqlite_target(path), &names()).unwrap()
}

/// Loads the text of a dump into a store that is closed.
fn load(text: &str, store: &TestStore) -> CopyReport {
    let file = store.dir.path().join("dump.jsonl");
    fs::write(&file, text).unwrap();
    let mut dump = DumpFile::open(&file).unwrap();
    match store.kind {
        Kind::Sqlite => migrate(&mut dump, &mut sqlite_target(&store.path()), &names()),
        Kind::Postgres => migrate(&mut dump, &mut postgres_target(&store.settings("one")), &names()),
    }
    .unwrap()
}

/// Lines without the trailer.
fn rows_of<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    &lines[..lines.len() - 1]
}

/// Text of a dump.
fn dumped(source: &mut dyn Source) -> String {
    let mut text = Vec::new();
    dump(source, &mut text, &|error| panic!("{error}")).unwrap();
    String::from_utf8(text).unwrap()
}

fn feed_paths(s: &mut TestStore, random: &mut Rng) {
    let run = RunId::new(["f1", "f2", "g"][random.usize(..3)], random.i64(1..4));
    let mut paths = PATHS.to_vec();
    random.shuffle(&mut paths);
    paths.truncate(random.usize(1..8));
    let lines = paths.into_iter().map(|path| (path.to_owned(), format!("{} {}", run.started, random.u8(..))));
    let batch = Batch::after(0, lines);
    let complete = random.bool();
    group(s, |s| {
        if s.upsert_run(&run, complete)? == Upsert::Done {
            s.enqueue(&run, &batch, 0, None)?;
        }
        Ok(())
    });
}

/// Changes a queue in a random way.
fn change(s: &mut TestStore, random: &mut Rng, now: i64) {
    let path = PATHS[random.usize(..PATHS.len())];
    match random.u8(..20) {
        0..=3 => feed_paths(s, random),
        4..=9 => {
            let job = take(s, now);
            if let Some(job) = job.filter(|_| random.u8(..4) > 0) {
                group(s, |s| s.delivered(job.handout));
            }
        }
        10..=12 => {
            let code = random.i64(0..3);
            group(s, |s| s.finish(path, code, now));
        }
        13 => drop(group(s, |s| s.bump(path))),
        14 => drop(group(s, |s| s.requeue(path, now))),
        15 => {
            let run = RunId::new("f1", random.i64(1..4));
            group(s, |s| s.mark_deleted(&run));
        }
        16 => drop(group(s, |s| s.delete_slice(&|| true))),
        17 => {
            let owner = ["catalog.lab.work", "ingester.b"][random.usize(..2)];
            let job = OfferedJob::new(owner, path, random.u8(..3).to_string());
            group(s, |s| s.offer(&job, "offered"));
        }
        18 => drop(s.crash()),
        // Rows of deleted runs leave, so that a fetcher can go and come again.
        _ => while group(s, |s| s.delete_slice(&|| true)) != Deletion::Idle {},
    }
}

/// Answers to operators' questions.
fn answers(inspector: &mut dyn Questions, now: i64) -> Vec<String> {
    let runs = inspector.runs().unwrap();
    let mut answers = vec![format!("runs {runs:?}")];
    answers.push(format!("peek {:?}", inspector.peek(None, now, 100).unwrap()));
    let mut in_flight = inspector.in_flight(None, 100).unwrap();
    // Only a shared queue has instances.
    in_flight.iter_mut().for_each(|job| job.instance = None);
    answers.push(format!("in flight {in_flight:?}"));
    let all = FailedAttempts { limit: 1_000, ..FailedAttempts::default() };
    answers.push(format!("failed {:?}", inspector.failed(&all).unwrap()));
    answers.push(format!("failures {:?}", inspector.failures(0, 1_000).unwrap()));
    // SQLite counts the jobs of a deleted run until they are removed, but not in a table of groups that is
    // new.
    if !runs.iter().any(|run| run.deleted) {
        answers.push(format!("counts {:?}", inspector.counts().unwrap()));
        answers.push(format!("sample {:?}", inspector.sample(now).unwrap()));
    }
    for path in PATHS {
        let mut report = inspector.attr(path, now, 100).unwrap();
        report.in_flight.iter_mut().for_each(|job| job.instance = None);
        answers.push(format!("{path} {report:?}"));
    }
    answers
}

fn answers_of(s: &TestStore, options: &Options, now: i64) -> Vec<String> {
    match s.kind {
        Kind::Sqlite => answers(&mut Inspector::open(&s.path(), options.clone(), TIMEOUT).unwrap(), now),
        Kind::Postgres => answers(&mut s.inspector(TIMEOUT), now),
    }
}

/// Ends jobs that are in flight, and hands out all that waits, now and after all holds. Adds what workers and
/// owners are told, and returns the numbers of the hand-outs.
fn drain(s: &mut TestStore, now: i64, told: &mut Vec<String>) -> BTreeSet<i64> {
    for path in &PATHS[..4] {
        told.push(format!("{path} ended {:?}", group(s, |s| s.finish(path, 5, now))));
    }
    let mut handouts = BTreeSet::new();
    for now in [now, now + 100] {
        while let Some(job) = take(s, now) {
            told.push(format!("{now} {} {}", job.attr_path, job.payload));
            assert!(handouts.insert(job.handout.0));
        }
    }
    for path in PATHS {
        told.push(format!("{path} ended {:?}", group(s, |s| s.finish(path, 6, now + 110))));
    }
    handouts
}

fn limits(patterns: &[(&str, u32)]) -> Options {
    let limit = |(fetcher, in_flight): &(&str, u32)| Limit {
        attr_path: None,
        fetcher: Some((*fetcher).to_owned()),
        in_flight: *in_flight,
    };
    let limits = Limits(patterns.iter().map(limit).collect());
    Options { hold_secs: 60, limits: limits.into(), ..Options::default() }
}

#[test]
fn d18_a_queue_goes_there_and_back_and_answers_the_same() {
    for seed in 0..6 {
        let options = if seed % 2 == 0 { limits(&[]) } else { limits(&[("f2", 0), ("g", 1), ("*.*", 2)]) };
        let (mut random, mut now) = (Rng::with_seed(seed), 100_000);
        let mut original = TestStore::with(options.clone());
        for _ in 0..150 {
            change(&mut original, &mut random, now);
            now += random.i64(0..8);
        }
        original.close();
        let pause = (seed == 1).then_some(PauseSpan { until_ms: None });
        pause_file::record(&original.path(), pause).unwrap();
        let before = fs::read(original.path()).unwrap();

        // Each way is interrupted before a few of its transactions.
        let mut kills = || (0..2).map(|_| random.usize(..9)).collect::<Vec<_>>();
        let mut moved = TestStore::of(Kind::Postgres, options.clone());
        moved.close();
        let there = to_postgres(&original.path(), &moved.settings("one"), &kills());
        let mut returned = TestStore::with(options.clone());
        returned.close();
        let back = to_sqlite(&moved.settings("one"), &returned.path(), &kills());

        assert_eq!(there, back, "seed {seed}");
        let dumps = [
            dumped(&mut sqlite_source(&original.path())),
            dumped(&mut postgres_source(&moved.settings("one"))),
            dumped(&mut sqlite_source(&returned.path())),
        ];
        // The header has the number of the last process.
        let [first, second, third] = dumps.each_ref().map(|text| text.lines().skip(1).collect::<Vec<_>>());
        assert_eq!(rows_of(&first), rows_of(&second), "seed {seed}");
        assert_eq!(rows_of(&first), rows_of(&third), "seed {seed}");
        let mut loaded =
            TestStore::of([Kind::Postgres, Kind::Sqlite][usize::from(seed % 2 == 0)], options.clone());
        loaded.close();
        assert_eq!(load(&dumps[0], &loaded), there, "seed {seed}");
        assert!(there.tables.iter().filter(|(_, rows, _)| *rows > 0).count() >= 6, "{:?}", there.tables);
        assert!(fs::read(original.path()).unwrap() == before, "the source has changed");
        assert_eq!(pause_file::pause(&returned.path()), pause);
        assert_eq!(moved.number("SELECT count(*) FROM attempt_other"), 0, "days leave as a whole");
        let elsewhere = "SELECT count(*) FROM pg_inherits JOIN pg_class AS part ON part.oid = inhrelid
            JOIN pg_class AS attempt ON attempt.oid = inhparent
            WHERE attempt.relname = 'attempt' AND part.relnamespace <> attempt.relnamespace";
        assert_eq!(moved.number(elsewhere), 0, "attempts stay when the functions of a program are dropped");
        let shared = [Some(&moved), Some(&loaded).filter(|loaded| loaded.kind == Kind::Postgres)];
        for s in shared.into_iter().flatten() {
            assert_eq!(s.inspector(TIMEOUT).shared_pause().unwrap(), pause);
            s.texts("DELETE FROM property WHERE name = 'paused' RETURNING name");
        }

        let answered = [&mut original, &mut moved, &mut returned, &mut loaded].map(|s| {
            let latest = latest_handout(s);
            let mut told = vec![format!("{} undone", s.crash())];
            told.extend(answers_of(s, &options, now));
            let handouts = drain(s, now, &mut told);
            assert!(handouts.first().is_none_or(|first| *first > latest), "seed {seed}: numbers repeat");
            told
        });
        for line in 0..answered.iter().map(Vec::len).max().unwrap_or_default() {
            let [first, moved, returned, loaded] = answered.each_ref().map(|told| told.get(line));
            assert_eq!(first, moved, "seed {seed}: moved");
            assert_eq!(first, returned, "seed {seed}: returned");
            assert_eq!(first, loaded, "seed {seed}: loaded");
        }
        // A later day removes those of the days before.
        moved.texts("SELECT keep_attempts(200000000000, 0)::text");
        assert_eq!(
            moved.number("SELECT count(*) FROM attempt"),
            moved.number("SELECT count(*) FROM attempt_other")
        );
    }
}

/// Largest number of a hand-out that the queue knows.
fn latest_handout(s: &TestStore) -> i64 {
    s.number(match s.kind {
        Kind::Sqlite => "SELECT ifnull(max(handout_id), 0) FROM orchestrator_attempt",
        Kind::Postgres => "SELECT coalesce(max(handout_id), 0) FROM attempt",
    })
}
