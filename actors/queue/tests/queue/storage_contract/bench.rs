//! What the cases work with.

use orchestrator_queue::edge::sqlite::{Options, SqliteStore};
use orchestrator_queue::storage::{Batch, Deletion, Job, RunId, Storage, StorageError, Upsert};
use rusqlite::Connection;
use std::path::PathBuf;
use std::time::Duration;

/// A row of the queue: fetcher id, attribute path, payload.
pub(crate) type QueueRow = (i64, String, String);

/// A storage that a case can look into.
pub(crate) trait Bench: Storage {
    /// All rows, sorted.
    fn queue(&self) -> Vec<QueueRow>;
    /// `last_started` of the rows of an attribute path.
    fn last_started(&self, attr: &str) -> Vec<Option<i64>>;
    /// Another process writes a log row, in place of the one that is there.
    fn write_log(&self, attr: &str, started: i64, finished: Option<i64>);
}

/// A store on a fresh file, and another connection to it, with triggers, as another process would have.
pub(crate) struct Sqlite {
    pub(crate) dir: tempfile::TempDir,
    store: Option<SqliteStore>,
    pub(crate) foreign: Connection,
    options: Options,
}

impl Sqlite {
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

    pub(crate) fn store(&mut self) -> &mut SqliteStore {
        self.store.as_mut().expect("open between reopenings")
    }

    /// The process dies, whatever it was doing, and starts again.
    pub(crate) fn crash(&mut self) -> usize {
        self.store = None;
        self.store = Some(SqliteStore::open(&self.path(), self.options.clone()).unwrap());
        group(self.store(), |s| s.undo_undelivered())
    }

    pub(crate) fn close(&mut self) {
        self.store = None;
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.foreign.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

/// One group transaction.
pub(crate) fn group<S: Storage, T>(store: &mut S, work: impl FnOnce(&mut S) -> Result<T, StorageError>) -> T {
    store.begin().unwrap();
    let done = work(store).unwrap();
    store.commit().unwrap();
    done
}

pub(crate) fn lines(lines: &[(&str, &str)]) -> Batch {
    Batch::new(lines.iter().map(|(attr, payload)| ((*attr).to_owned(), (*payload).to_owned())))
}

/// Adds a growing run with these lines.
pub(crate) fn feed<S: Storage>(store: &mut S, fetcher: &str, started: i64, rows: &[(&str, &str)]) {
    let run = RunId::new(fetcher, started);
    group(store, |s| {
        assert_eq!(s.upsert_run(&run, false)?, Upsert::Done);
        s.enqueue(&run, &lines(rows), 0, None)
    });
}

pub(crate) fn take<S: Storage>(store: &mut S, now: i64) -> Option<Job> {
    group(store, |s| s.dequeue(now))
}

/// The attribute path and payload handed out at `now`.
pub(crate) fn next<S: Storage>(store: &mut S, now: i64) -> Option<(String, String)> {
    take(store, now).map(|job| (job.attr_path, job.payload))
}

pub(crate) fn next_attr<S: Storage>(store: &mut S, now: i64) -> Option<String> {
    take(store, now).map(|job| job.attr_path)
}

pub(crate) fn finish<S: Storage>(store: &mut S, attr: &str, now: i64) {
    assert!(group(store, |s| s.finish(attr, 0, now)), "{attr} was never started");
}

/// Deletes a run to the last row.
pub(crate) fn delete<S: Storage>(store: &mut S, fetcher: &str, started: i64) {
    assert!(group(store, |s| s.mark_deleted(&RunId::new(fetcher, started))));
    while group(store, |s| s.delete_slice(Duration::from_millis(5))) != Deletion::Idle {}
}

pub(crate) fn job(attr: &str, payload: &str) -> Option<(String, String)> {
    Some((attr.to_owned(), payload.to_owned()))
}

impl Bench for Sqlite {
    fn queue(&self) -> Vec<QueueRow> {
        let sql = "SELECT fetcher_id, attr_path, payload FROM queue ORDER BY 1, 2, 3";
        let mut statement = self.foreign.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    fn last_started(&self, attr: &str) -> Vec<Option<i64>> {
        let mut statement =
            self.foreign.prepare("SELECT last_started FROM queue WHERE attr_path = ?1").unwrap();
        let rows = statement.query_map([attr], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    fn write_log(&self, attr: &str, started: i64, finished: Option<i64>) {
        let sql = "INSERT INTO log (attr_path, started, finished) VALUES (?1, ?2, ?3)
                   ON CONFLICT DO UPDATE SET started = excluded.started, finished = excluded.finished";
        self.foreign.execute(sql, (attr, started, finished)).unwrap();
    }
}

macro_rules! delegate {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $out:ty;)*) => {
        impl Storage for Sqlite {
            $(fn $name(&mut self, $($arg: $kind),*) -> Result<$out, StorageError> { self.store().$name($($arg),*) })*
        }
    };
}

delegate! {
    begin() -> ();
    commit() -> ();
    rollback() -> ();
    known_runs() -> Vec<orchestrator_queue::storage::RunState>;
    upsert_run(run: &RunId, complete: bool) -> Upsert;
    enqueue(run: &RunId, batch: &Batch, from: usize, deadline: Option<std::time::Instant>) -> usize;
    mark_deleted(run: &RunId) -> bool;
    delete_slice(budget: Duration) -> Deletion;
    dequeue(now: i64) -> Option<Job>;
    finish(attr_path: &str, exit_code: i64, now: i64) -> bool;
    delivered(handout: orchestrator_queue::storage::HandoutId) -> bool;
    undo(handout: orchestrator_queue::storage::HandoutId) -> bool;
    undo_undelivered() -> usize;
    requeue(attr_path: &str, now: i64) -> orchestrator_queue::storage::Requeued;
}
