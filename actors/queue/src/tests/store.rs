//! Fixture: a store on a fresh file, and helpers.

mod postgres;

use orchestrator_edge::postgres::{Address, Row, Session, SessionSettings};
use orchestrator_harness::wait_for;
use orchestrator_queue_rules::storage::{
    Batch, Bumped, Deletion, Finished, HandoutId, Job, JobFilter, OfferState, OfferedJob, Operation, Outcome,
    Requeued, RequeuedSlice, RunId, RunState, Storage, StorageError, StorageErrorKind, Upsert,
};
use orchestrator_supervise::StopToken;
use rusqlite::Connection;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

pub(crate) use self::postgres::*;
use orchestrator_queue_postgres::{PostgresInspector, PostgresStore, Settings, search_path};
use orchestrator_queue_rules::storage::HandoutSettings;
use orchestrator_queue_sqlite::{Options, SqliteStore};

use crate::config::QueueConfig;

/// Batches of one operation.
pub(crate) trait SingleOperations: Storage {
    fn one(&mut self, operation: Operation<'_>, now: i64) -> Result<Outcome, StorageError> {
        Ok(self.serve(&[operation], 0, now)?.pop().expect("an outcome"))
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

    fn withdraw(&mut self, job: &OfferedJob) -> Result<bool, StorageError> {
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

    fn offer(&mut self, job: &OfferedJob, payload: &str) -> Result<OfferState, StorageError> {
        self.one(Operation::Offer { job, former: None, payload }, 0).map(|outcome| match outcome {
            Outcome::Offered(state) => state,
            other => panic!("{other:?}"),
        })
    }
}

impl<S: Storage + ?Sized> SingleOperations for S {}

/// Kind of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];
}

/// A store on a fresh file or in a fresh schema.
pub(crate) struct TestStore {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) kind: Kind,
    pub(crate) schema: String,
    store: Option<Opened>,
    pub(crate) foreign: Option<Connection>,
    reader: RefCell<Option<(Runtime, Session)>>,
    options: Options,
}

enum Opened {
    Sqlite(Box<SqliteStore>),
    Postgres(Box<PostgresStore>),
}

impl TestStore {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        Self::of(Kind::Sqlite, options)
    }

    /// A store of each kind, one after the other.
    pub(crate) fn each(options: Options) -> impl Iterator<Item = Self> {
        Kind::ALL.into_iter().map(move |kind| Self::of(kind, options.clone()))
    }

    pub(crate) fn of(kind: Kind, options: Options) -> Self {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let schema = format!("queue_{}", SCHEMAS.fetch_add(1, Relaxed));
        let dir = tempfile::tempdir().unwrap();
        let mut made =
            Self { dir, kind, schema, store: None, foreign: None, reader: RefCell::default(), options };
        made.open();
        if kind == Kind::Sqlite {
            let foreign = Connection::open(made.path()).unwrap();
            foreign.pragma_update(None, "foreign_keys", true).unwrap();
            made.foreign = Some(foreign);
        }
        made
    }

    fn open(&mut self) {
        self.store = None;
        self.store = Some(match self.kind {
            Kind::Sqlite => {
                // A process that another test is starting has the lock of the former store until it executes
                // its program.
                let open = || match SqliteStore::open(&self.path(), self.options.clone()) {
                    Err(StorageError { kind: StorageErrorKind::Locked, .. }) => None,
                    opened => Some(opened.unwrap()),
                };
                Opened::Sqlite(Box::new(wait_for("the lock of the database", open)))
            }
            Kind::Postgres => Opened::Postgres(Box::new(place_of(&self.settings("one")))),
        });
    }

    /// Settings of an instance that shares this store.
    pub(crate) fn settings(&self, instance: &str) -> Settings {
        Settings {
            address: Address::parse(database(), "orchestrator queue").unwrap(),
            schema: self.schema.clone(),
            instance: instance.to_owned(),
            host: "here".to_owned(),
            socket: "worker.sock".to_owned(),
            handouts: HandoutSettings {
                hold_secs: self.options.hold_secs,
                redeliver_after_lease: self.options.redeliver_after_lease,
                attempts: self.options.attempts,
                limits: (*self.options.limits).clone(),
            },
            given_times: true,
        }
    }

    /// Answers questions about this store, which an instance has opened.
    pub(crate) fn inspector(&self, timeout: Duration) -> PostgresInspector {
        let postgres = configured(database(), &self.schema, "one");
        let config = QueueConfig { postgres, ..QueueConfig::default() };
        PostgresInspector::new(&config.instance(), timeout, StopToken::new())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("q.db")
    }

    /// A second connection with triggers, like that of another process.
    pub(crate) fn foreign(&self) -> &Connection {
        self.foreign.as_ref().expect("a store on SQLite")
    }

    pub(crate) fn sqlite(&mut self) -> &mut SqliteStore {
        match &mut self.store {
            Some(Opened::Sqlite(store)) => store,
            _ => panic!("no store on SQLite is open"),
        }
    }

    /// Simulates a crash of the process and a new start.
    pub(crate) fn crash(&mut self) -> usize {
        self.open();
        group(self, |s| s.undo_undelivered())
    }

    /// Stops the store.
    pub(crate) fn close(&mut self) {
        self.store = None;
    }

    /// Stops the store and starts it with other options.
    pub(crate) fn reopen(&mut self, options: Options) {
        self.options = options;
        self.open();
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        match self.kind {
            Kind::Sqlite => self.foreign().query_row(sql, [], |row| row.get(0)).unwrap(),
            Kind::Postgres => self.texts(sql).concat().parse().unwrap(),
        }
    }

    /// First column of a query, sorted.
    pub(crate) fn texts(&self, sql: &str) -> Vec<String> {
        let mut rows: Vec<String> = match self.kind {
            Kind::Sqlite => {
                let mut statement = self.foreign().prepare(sql).unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
            Kind::Postgres => {
                let mut reader = self.reader.borrow_mut();
                let (runtime, session) = reader.get_or_insert_with(|| connect(&self.schema));
                let rows = runtime.block_on(session.query("reading", sql.to_owned(), vec![])).unwrap();
                rows.iter().map(text).collect()
            }
        };
        rows.sort();
        rows
    }
}

/// Connects to a schema as another program does.
fn connect(schema: &str) -> (Runtime, Session) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let settings = SessionSettings {
        sql: &[],
        connect_timeout: Duration::from_secs(30),
        answer_timeout: Duration::from_secs(60),
        row_max: 1 << 20,
        answer_max: 1 << 26,
    };
    let session = runtime.block_on(async {
        let address = Address::parse(database(), "test").unwrap();
        let mut session = Session::open(&address, &settings).await.unwrap();
        session.batch("choosing the schema", &search_path(schema)).await.unwrap();
        session
    });
    (runtime, session)
}

fn text(row: &Row) -> String {
    match row.try_get::<_, Option<String>>(0) {
        Ok(text) => text.unwrap_or_default(),
        Err(_) => row.try_get::<_, i64>(0).map_or_else(|_| String::new(), |number| number.to_string()),
    }
}

impl TestStore {
    fn inner(&mut self) -> &mut dyn Storage {
        match self.store.as_mut().expect("open between reopenings") {
            Opened::Sqlite(store) => &mut **store,
            Opened::Postgres(store) => &mut **store,
        }
    }
}

impl Storage for TestStore {
    fn begin(&mut self) -> Result<(), StorageError> {
        self.inner().begin()
    }
    fn commit(&mut self) -> Result<(), StorageError> {
        self.inner().commit()
    }
    fn rollback(&mut self) -> Result<(), StorageError> {
        self.inner().rollback()
    }
    fn known_runs(&mut self) -> Result<Vec<RunState>, StorageError> {
        self.inner().known_runs()
    }
    fn upsert_run(&mut self, run: &RunId, complete: bool) -> Result<Upsert, StorageError> {
        self.inner().upsert_run(run, complete)
    }
    fn stage(&mut self, batch: &mut Batch) -> Result<(), StorageError> {
        self.inner().stage(batch)
    }
    fn enqueue(
        &mut self,
        run: &RunId,
        batch: &Batch,
        from: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, StorageError> {
        self.inner().enqueue(run, batch, from, deadline)
    }
    fn mark_deleted(&mut self, run: &RunId) -> Result<bool, StorageError> {
        self.inner().mark_deleted(run)
    }
    fn delete_slice(&mut self, may_continue: &dyn Fn() -> bool) -> Result<Deletion, StorageError> {
        self.inner().delete_slice(may_continue)
    }
    fn serve(
        &mut self,
        batch: &[Operation<'_>],
        unsent: u64,
        now: i64,
    ) -> Result<Vec<Outcome>, StorageError> {
        self.inner().serve(batch, unsent, now)
    }
    fn undo_undelivered(&mut self) -> Result<usize, StorageError> {
        self.inner().undo_undelivered()
    }
    fn withdraw_waiting(&mut self, now: i64) -> Result<usize, StorageError> {
        self.inner().withdraw_waiting(now)
    }
}

/// Runs one transaction.
pub(crate) fn group<T>(
    store: &mut dyn Storage,
    work: impl FnOnce(&mut dyn Storage) -> Result<T, StorageError>,
) -> T {
    store.begin().unwrap();
    let done = work(store).unwrap();
    store.commit().unwrap();
    done
}

pub(crate) fn lines(lines: &[(&str, &str)]) -> Batch {
    Batch::after(0, lines.iter().map(|(attr, payload)| ((*attr).to_owned(), (*payload).to_owned())))
}

pub(crate) fn packages(count: usize) -> Batch {
    Batch::after(0, (0..count).map(|n| (format!("pkg{n}"), "0 1".to_owned())))
}

/// Adds a growing run with these lines.
pub(crate) fn feed(store: &mut dyn Storage, fetcher: &str, started: i64, rows: &[(&str, &str)]) {
    feed_batch(store, fetcher, started, &lines(rows));
}

pub(crate) fn feed_batch(store: &mut dyn Storage, fetcher: &str, started: i64, batch: &Batch) {
    let run = RunId::new(fetcher, started);
    group(store, |s| {
        assert_eq!(s.upsert_run(&run, false)?, Upsert::Done);
        s.enqueue(&run, batch, 0, None)
    });
}

pub(crate) fn take(store: &mut dyn Storage, now: i64) -> Option<Job> {
    group(store, |s| s.dequeue(now, "1"))
}

pub(crate) fn next(store: &mut dyn Storage, now: i64) -> Option<(String, String)> {
    take(store, now).map(|job| (job.attr_path, job.payload))
}

pub(crate) fn next_attr(store: &mut dyn Storage, now: i64) -> Option<String> {
    take(store, now).map(|job| job.attr_path)
}

pub(crate) fn job(attr: &str, payload: &str) -> Option<(String, String)> {
    Some((attr.to_owned(), payload.to_owned()))
}
