//! The same queue in a SQLite file and in a PostgreSQL schema.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use orchestrator_edge::postgres::{Address, Params, Row, Session, SessionSettings};
use orchestrator_harness::Postgres;
use orchestrator_queue_rules::{
    jitter::jitter_hash,
    storage::{Deletion, Questions, RunId, Waiting},
};
use orchestrator_supervise::StopToken;
use tokio::runtime::{Builder, Runtime};

use orchestrator_queue_postgres::{PostgresInspector, creation, search_path};
use orchestrator_queue_sqlite::{Inspector, Options};

use crate::config::QueueConfig;
use crate::tests::store::{SingleOperations as _, TestStore, configured, group, next_attr};

/// More time than any question takes on a busy machine.
pub(super) const PLENTY: Duration = Duration::from_secs(60);
const SETTINGS: SessionSettings = SessionSettings {
    sql: &["SET timezone = 'UTC';"],
    connect_timeout: PLENTY,
    answer_timeout: PLENTY,
    row_max: 1 << 20,
    answer_max: 64 << 20,
};

/// Changes of a queue, and its inspector.
pub(super) trait Queue {
    /// Adds paths to a run, which was added at `at` if it is new.
    fn feed(&mut self, fetcher: &str, run: i64, at: i64, paths: &[&str]);
    /// Hands a job out to the connection `1`.
    fn take(&mut self, now: i64) -> Option<String>;
    fn finish(&mut self, attr_path: &str, exit_code: i64, now: i64);
    fn requeue(&mut self, attr_path: &str, now: i64);
    /// Bumps a path that waits.
    fn bump(&mut self, attr_path: &str);
    /// Deletes a run with its rows.
    fn delete(&mut self, fetcher: &str, run: i64);
    fn inspector(&self) -> Box<dyn Questions>;
    fn waiting(&mut self, now: i64) -> Waiting;
}

pub(super) struct InSqlite {
    store: TestStore,
    options: Options,
}

impl InSqlite {
    pub(super) fn new(config: &QueueConfig) -> Self {
        let options = Options::new(config.handouts(), config.synchronous);
        Self { store: TestStore::with(options.clone()), options }
    }
}

impl Queue for InSqlite {
    fn feed(&mut self, fetcher: &str, run: i64, at: i64, paths: &[&str]) {
        let lines: Vec<(&str, &str)> = paths.iter().map(|path| (*path, fetcher)).collect();
        let known = "SELECT count(*) FROM orchestrator_run";
        let before = self.store.number(known);
        crate::tests::store::feed(&mut self.store, fetcher, run, &lines);
        if self.store.number(known) > before {
            self.store
                .foreign()
                .execute(
                    "UPDATE orchestrator_run SET added = ?1 WHERE run_started = ?2
                         AND fetcher_id = (SELECT fetcher_id FROM fetchers WHERE name = ?3)",
                    (at, run, fetcher),
                )
                .unwrap();
        }
    }

    fn take(&mut self, now: i64) -> Option<String> {
        next_attr(&mut self.store, now)
    }

    fn finish(&mut self, attr_path: &str, exit_code: i64, now: i64) {
        group(&mut self.store, |s| s.finish(attr_path, exit_code, now));
    }

    fn requeue(&mut self, attr_path: &str, now: i64) {
        group(&mut self.store, |s| s.requeue(attr_path, now));
    }

    fn bump(&mut self, attr_path: &str) {
        group(&mut self.store, |s| s.bump(attr_path));
    }

    fn delete(&mut self, fetcher: &str, run: i64) {
        group(&mut self.store, |s| s.mark_deleted(&RunId::new(fetcher, run)));
        while group(&mut self.store, |s| s.delete_slice(&|| true)) != Deletion::Idle {}
    }

    fn inspector(&self) -> Box<dyn Questions> {
        Box::new(Inspector::open(&self.store.path(), self.options.clone(), PLENTY).unwrap())
    }

    fn waiting(&mut self, now: i64) -> Waiting {
        self.store.sqlite().waiting(now).unwrap()
    }
}

/// A schema of its own.
pub(super) struct InPostgres {
    schema: String,
    config: QueueConfig,
    runtime: Runtime,
    session: Session,
    handouts: i64,
}

impl InPostgres {
    pub(super) fn new(config: &QueueConfig) -> Self {
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        let schema = format!("inspected_{}", SCHEMAS.fetch_add(1, Relaxed));
        let mut queue = Self::connect(schema, config);
        queue.create();
        queue
    }

    /// The same queue on another connection, for one of several instances. Not for hand-outs.
    pub(super) fn same(&self) -> Self {
        let mut same = Self::connect(self.schema.clone(), &self.config);
        same.choose_schema();
        same
    }

    fn connect(schema: String, config: &QueueConfig) -> Self {
        let address = Address::parse(dsn(), "queue tests").unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(Session::open(&address, &SETTINGS)).unwrap();
        Self { schema, config: config.clone(), runtime, session, handouts: 0 }
    }

    fn choose_schema(&mut self) {
        self.batch(&search_path(&self.schema));
    }

    fn create(&mut self) {
        self.batch(&creation(&self.schema));
        self.choose_schema();
        self.batch(
            "INSERT INTO instance (instance, incarnation, host, socket, lease_until, is_locked)
             VALUES ('i', nextval('incarnation_number'), 'host', 'socket', now(), false)",
        );
        let like = |pattern: &Option<String>| {
            let pattern = pattern.as_ref()?;
            Some(pattern.replace('_', "\\_").replace('*', "%").replace('?', "_"))
        };
        let limits = &self.config.limit;
        let params: Params<'_> = vec![
            Box::new(limits.iter().map(|limit| like(&limit.attr_path)).collect::<Vec<_>>()),
            Box::new(limits.iter().map(|limit| like(&limit.fetcher)).collect::<Vec<_>>()),
            Box::new(limits.iter().map(|limit| limit.in_flight.cast_signed()).collect::<Vec<_>>()),
        ];
        self.query("SELECT set_limits($1, $2, $3)", params);
    }

    pub(super) fn config(&self) -> QueueConfig {
        QueueConfig { postgres: configured(dsn(), &self.schema, "i"), ..self.config.clone() }
    }

    pub(super) fn open(&self, timeout: Duration) -> PostgresInspector {
        PostgresInspector::new(&self.config().instance(), timeout, StopToken::new())
    }

    pub(super) fn batch(&mut self, sql: &str) {
        self.runtime.block_on(self.session.batch("changing the queue", sql)).unwrap();
    }

    pub(super) fn query(&mut self, sql: &'static str, params: Params<'_>) -> Vec<Row> {
        self.runtime.block_on(self.session.query("changing the queue", sql, params)).unwrap()
    }

    /// As [`InPostgres::query`], in a transaction of the store.
    fn change(&mut self, sql: &'static str, params: Params<'_>) -> Vec<Row> {
        self.batch("BEGIN");
        let rows = self.query(sql, params);
        self.batch("SELECT before_commit(); COMMIT");
        rows
    }

    /// Ends a job in the open transaction.
    pub(super) fn end(&mut self, attr_path: &str, exit_code: i64, now: i64) {
        let sql = "SELECT * FROM end_jobs(ARRAY[$1], ARRAY[$2::bigint], $3)";
        self.query(sql, vec![Box::new(attr_path), Box::new(exit_code), Box::new(now)]);
    }

    fn fetcher_id(&mut self, name: &str) -> i64 {
        let sql = "INSERT INTO fetcher (name, instance) VALUES ($1, 'i')
             ON CONFLICT (name, instance) DO UPDATE SET name = excluded.name RETURNING fetcher_id";
        self.query(sql, vec![Box::new(name)])[0].try_get(0).unwrap()
    }

    /// Hands a job out to a connection, as one of several instances does: with numbers of its incarnation.
    pub(super) fn take_by(&mut self, incarnation: i64, now: i64) -> Option<String> {
        // Hand-outs are numbered with gaps.
        self.handouts += 1_000;
        let id = (incarnation << 32) + self.handouts;
        let hold = i64::from(self.config.hold_secs);
        let sql =
            "SELECT attr_path FROM hand_out(ARRAY['1'], $1, $2, $3, true, '{-9223372036854775808,0}', 0, 1)";
        let rows = self.change(sql, vec![Box::new(id), Box::new(now), Box::new(hold)]);
        rows.first().map(|row| row.try_get(0).unwrap())
    }
}

/// Address of a database of the shared server.
fn dsn() -> &'static str {
    static DSN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    DSN.get_or_init(|| Postgres::shared().create_database("inspected"))
}

impl Queue for InPostgres {
    fn feed(&mut self, fetcher: &str, run: i64, at: i64, paths: &[&str]) {
        let id = self.fetcher_id(fetcher);
        let sql = "INSERT INTO run VALUES ($1, $2, false, false, $3) ON CONFLICT DO NOTHING";
        self.query(sql, vec![Box::new(id), Box::new(run), Box::new(at)]);
        let payloads = vec![fetcher; paths.len()];
        let jitters: Vec<i32> = paths.iter().map(|path| jitter_hash(path)).collect();
        let params: Params<'_> =
            vec![Box::new(id), Box::new(run), Box::new(paths), Box::new(payloads), Box::new(jitters)];
        let known = self.query("SELECT ingest($1, $2, $3, $4, $5)", params);
        assert!(known[0].try_get::<_, bool>(0).unwrap());
    }

    /// Instances take turns, so the numbers of later hand-outs may be smaller.
    fn take(&mut self, now: i64) -> Option<String> {
        self.take_by(3 - now % 3, now)
    }

    fn finish(&mut self, attr_path: &str, exit_code: i64, now: i64) {
        self.batch("BEGIN");
        self.end(attr_path, exit_code, now);
        self.batch("SELECT before_commit(); COMMIT");
    }

    fn requeue(&mut self, attr_path: &str, now: i64) {
        self.change("SELECT * FROM requeue($1, $2)", vec![Box::new(attr_path), Box::new(now)]);
    }

    fn bump(&mut self, attr_path: &str) {
        self.query(
            "DELETE FROM bump WHERE attr_path = $1 AND handout_id IS NOT NULL",
            vec![Box::new(attr_path)],
        );
        let sql =
            "INSERT INTO bump (attr_path) SELECT $1 WHERE EXISTS (SELECT 1 FROM ready_groups(ARRAY[$1]))
             ON CONFLICT DO NOTHING";
        self.query(sql, vec![Box::new(attr_path)]);
    }

    fn delete(&mut self, fetcher: &str, run: i64) {
        let id = self.fetcher_id(fetcher);
        let params = || -> Params<'_> { vec![Box::new(id), Box::new(run)] };
        self.query("UPDATE run SET is_deleted = true WHERE fetcher_id = $1 AND run_started = $2", params());
        while self.query("SELECT delete_rows($1, $2, 2)", params())[0].try_get::<_, i64>(0).unwrap() > 0 {}
    }

    fn inspector(&self) -> Box<dyn Questions> {
        Box::new(self.open(PLENTY))
    }

    fn waiting(&mut self, now: i64) -> Waiting {
        self.open(PLENTY).waiting(now).unwrap()
    }
}
