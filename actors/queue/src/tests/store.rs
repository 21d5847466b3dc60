//! Fixture: a store on a fresh file, and helpers.

use orchestrator_exchange::JobId;
use rusqlite::Connection;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::Duration;

use crate::{
    edge::sqlite::{Options, SqliteStore},
    storage::{
        Batch, Bumped, Finished, HandoutId, Job, JobFilter, OfferState, Operation, Outcome, Requeued,
        RequeuedSlice, RunId, Storage, StorageError, Upsert,
    },
};

/// Batches of one operation.
pub(crate) trait SingleOperations: Storage {
    fn one(&mut self, operation: Operation<'_>, now: i64) -> Result<Outcome, StorageError> {
        Ok(self.serve(&[operation], now)?.pop().expect("an outcome"))
    }

    fn dequeue(&mut self, now: i64, connection: &str) -> Result<Option<Job>, StorageError> {
        let ready = Operation::Worker { done: None, connection: Some(connection) };
        self.one(ready, now).map(|outcome| match outcome {
            Outcome::Worker { job, finished: None } => job,
            other => panic!("{other:?}"),
        })
    }

    fn finish(
        &mut self,
        attr_path: &str,
        exit_code: i64,
        now: i64,
    ) -> Result<Option<Finished>, StorageError> {
        let done = Operation::Worker { done: Some((attr_path, exit_code)), connection: None };
        self.one(done, now).map(|outcome| match outcome {
            Outcome::Worker { finished, job: None } => finished,
            other => panic!("{other:?}"),
        })
    }

    fn change(&mut self, operation: Operation<'_>) -> Result<bool, StorageError> {
        self.one(operation, 0).map(|outcome| match outcome {
            Outcome::Changed(changed) => changed,
            other => panic!("{other:?}"),
        })
    }

    fn delivered(&mut self, handout: HandoutId) -> Result<bool, StorageError> {
        self.change(Operation::Delivered(handout))
    }

    fn undo(&mut self, handout: HandoutId) -> Result<bool, StorageError> {
        self.change(Operation::Undo(handout))
    }

    fn withdraw(&mut self, job: &JobId) -> Result<bool, StorageError> {
        self.change(Operation::Withdraw(job))
    }

    fn requeue(&mut self, attr_path: &str, now: i64) -> Result<Requeued, StorageError> {
        self.one(Operation::Requeue(attr_path), now).map(|outcome| match outcome {
            Outcome::Requeued(requeued) => requeued,
            other => panic!("{other:?}"),
        })
    }

    fn requeue_slice(
        &mut self,
        filter: &JobFilter,
        from: &str,
        budget: Duration,
        now: i64,
    ) -> Result<RequeuedSlice, StorageError> {
        self.one(Operation::RequeueSlice { filter, from, budget }, now).map(|outcome| match outcome {
            Outcome::RequeuedSlice(slice) => slice,
            other => panic!("{other:?}"),
        })
    }

    fn bump(&mut self, attr_path: &str) -> Result<Bumped, StorageError> {
        self.one(Operation::Bump(attr_path), 0).map(|outcome| match outcome {
            Outcome::Bumped(bumped) => bumped,
            other => panic!("{other:?}"),
        })
    }

    fn offer(&mut self, job: &JobId, payload: &str) -> Result<OfferState, StorageError> {
        self.one(Operation::Offer { job, payload }, 0).map(|outcome| match outcome {
            Outcome::Offered(state) => state,
            other => panic!("{other:?}"),
        })
    }
}

impl<S: Storage> SingleOperations for S {}

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
