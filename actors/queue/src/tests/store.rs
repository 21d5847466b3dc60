//! Fixture: a store on a fresh file, and helpers.

use rusqlite::Connection;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use crate::{
    edge::sqlite::{Options, SqliteStore},
    storage::{Batch, Job, RunId, Storage, StorageError, Upsert},
};

/// A store on a fresh file, and a second connection with triggers, like that of another process.
pub(crate) struct TestStore {
    pub(crate) dir: tempfile::TempDir,
    store: Option<SqliteStore>,
    pub(crate) foreign: Connection,
    options: Options,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&dir.path().join("q.db"), options.clone()).unwrap();
        let foreign = Connection::open(dir.path().join("q.db")).unwrap();
        foreign.pragma_update(None, "foreign_keys", true).unwrap();
        Self { dir, store: Some(store), foreign, options }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("q.db")
    }

    /// Simulates a crash of the process and a new start.
    pub(crate) fn crash(&mut self) -> usize {
        self.store = None;
        self.store = Some(SqliteStore::open(&self.path(), self.options.clone()).unwrap());
        group(self, |s| s.undo_undelivered())
    }

    /// Stops the store and starts it with other options.
    pub(crate) fn reopen(&mut self, options: Options) {
        self.store = None;
        self.options = options;
        self.store = Some(SqliteStore::open(&self.path(), self.options.clone()).unwrap());
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.foreign.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

impl Deref for TestStore {
    type Target = SqliteStore;

    fn deref(&self) -> &SqliteStore {
        self.store.as_ref().expect("open between reopenings")
    }
}

impl DerefMut for TestStore {
    fn deref_mut(&mut self) -> &mut SqliteStore {
        self.store.as_mut().expect("open between reopenings")
    }
}

/// Runs one transaction.
pub(crate) fn group<T>(
    store: &mut SqliteStore,
    work: impl FnOnce(&mut SqliteStore) -> Result<T, StorageError>,
) -> T {
    store.begin().unwrap();
    let done = work(store).unwrap();
    store.commit().unwrap();
    done
}

pub(crate) fn lines(lines: &[(&str, &str)]) -> Batch {
    Batch::new(lines.iter().map(|(attr, payload)| ((*attr).to_owned(), (*payload).to_owned())))
}

/// Returns rows of `pkg0`, `pkg1`, ..
pub(crate) fn packages(count: usize) -> Batch {
    Batch::new((0..count).map(|n| (format!("pkg{n}"), "0 1".to_owned())))
}

/// Adds a growing run with these lines.
pub(crate) fn feed(store: &mut SqliteStore, fetcher: &str, started: i64, rows: &[(&str, &str)]) {
    feed_batch(store, fetcher, started, &lines(rows));
}

pub(crate) fn feed_batch(store: &mut SqliteStore, fetcher: &str, started: i64, batch: &Batch) {
    let run = RunId::new(fetcher, started);
    group(store, |s| {
        assert_eq!(s.upsert_run(&run, false)?, Upsert::Done);
        s.enqueue(&run, batch, 0, None)
    });
}

pub(crate) fn take(store: &mut SqliteStore, now: i64) -> Option<Job> {
    group(store, |s| s.dequeue(now, "1"))
}

/// Returns the attribute path and payload handed out at `now`.
pub(crate) fn next(store: &mut SqliteStore, now: i64) -> Option<(String, String)> {
    take(store, now).map(|job| (job.attr_path, job.payload))
}

pub(crate) fn next_attr(store: &mut SqliteStore, now: i64) -> Option<String> {
    take(store, now).map(|job| job.attr_path)
}

pub(crate) fn job(attr: &str, payload: &str) -> Option<(String, String)> {
    Some((attr.to_owned(), payload.to_owned()))
}
