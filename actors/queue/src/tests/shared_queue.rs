//! Several instances on one schema: concurrent hand-outs, races between transactions, and the place of an
//! instance.

mod places;
mod plans;
mod removals;
mod waking;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{JoinHandle, scope, spawn},
    time::Duration,
};

use orchestrator_edge::postgres::{Address, Session, SessionSettings};
use orchestrator_harness::{eventually, wait_for};
use orchestrator_queue_rules::storage::{
    Batch, Bumped, Deletion, Job, Limit, Limits, OfferedJob, Operation, Outcome, RunId, Storage,
    StorageError, StorageErrorKind, Upsert,
};
use tokio::runtime::Runtime;

use orchestrator_queue_postgres::{AddedKeys, PostgresStore, Settings, search_path};
use orchestrator_queue_sqlite::Options;

use crate::tests::store::*;

/// Connection of an observer.
struct Observer {
    runtime: Runtime,
    session: Session,
    schema: String,
}

impl Observer {
    fn of(schema: &str) -> Self {
        let settings = SessionSettings {
            sql: &[],
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(60),
            row_max: 1 << 20,
            answer_max: 1 << 20,
        };
        let address = Address::parse(database(), "observer").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(Session::open(&address, &settings)).unwrap();
        let mut made = Self { runtime, session, schema: schema.to_owned() };
        made.run(&search_path(schema));
        made
    }

    fn run(&mut self, sql: &str) {
        self.runtime.block_on(self.session.batch("observing", sql)).unwrap();
    }

    fn number(&mut self, sql: &str) -> i64 {
        let rows = self.runtime.block_on(self.session.query("observing", sql.to_owned(), vec![])).unwrap();
        rows[0].try_get(0).unwrap()
    }

    /// Number of rows that a later hand-out should find: the newest of each path and fetcher, if they wait.
    fn waiting(&mut self) -> i64 {
        self.number(
            "SELECT count(*) FROM (
                 SELECT DISTINCT ON (attr_path, fetcher_id) is_dequeued FROM queue
                 ORDER BY attr_path, fetcher_id, fetcher_run_started DESC) AS newest
             WHERE is_dequeued = 0",
        )
    }

    /// Lets transactions wait in a trigger until [`Observer::release`].
    fn hold(&mut self, event: &str) {
        let key = format!("hashtext('{}')", self.schema);
        self.run(&format!(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
                 $$BEGIN PERFORM pg_advisory_xact_lock_shared({key}); RETURN NULL; END$$;
             CREATE TRIGGER wait {event} FOR EACH STATEMENT EXECUTE FUNCTION wait();
             SELECT pg_advisory_lock({key})"
        ));
    }

    fn release(&mut self) {
        self.run("SELECT pg_advisory_unlock_all()");
    }

    /// Waits until a transaction on this schema waits for a lock, or `other` has ended.
    fn wait_for_lock<T>(&mut self, other: &JoinHandle<T>) {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity AS a WHERE cardinality(pg_blocking_pids(a.pid)) > 0 AND EXISTS (
                 SELECT 1 FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
                 WHERE l.pid = a.pid AND c.relnamespace = '{}'::regnamespace)",
            self.schema
        );
        wait_for("a transaction that waits", || (self.number(&sql) > 0 || other.is_finished()).then_some(()));
    }
}

fn shared(limits: &[(Option<&str>, Option<&str>, u32)]) -> (TestStore, Observer) {
    let limit = |(attr_path, fetcher, in_flight): &(Option<&str>, Option<&str>, u32)| Limit {
        attr_path: attr_path.map(str::to_owned),
        fetcher: fetcher.map(str::to_owned),
        in_flight: *in_flight,
    };
    let limits = Arc::new(Limits(limits.iter().map(limit).collect()));
    let one = TestStore::of(Kind::Postgres, Options { limits, ..Options::default() });
    let observer = Observer::of(&one.schema);
    (one, observer)
}

fn open(settings: &Settings) -> PostgresStore {
    try_place(settings).unwrap()
}

/// Runs `work` of two instances at the same time.
fn together<T: Send>(one: &TestStore, work: impl Fn(PostgresStore, Observer) -> T + Sync) -> [T; 2] {
    let (work, barrier) = (&work, &Barrier::new(2));
    scope(|threads| {
        let running = ["two", "three"].map(|instance| {
            let settings = one.settings(instance);
            threads.spawn(move || {
                let (store, observer) = (open(&settings), Observer::of(&settings.schema));
                barrier.wait();
                work(store, observer)
            })
        });
        running.map(|thread| thread.join().unwrap())
    })
}

/// Runs one transaction, and runs it again after a deadlock.
fn retried<T>(
    store: &mut dyn Storage,
    mut work: impl FnMut(&mut dyn Storage) -> Result<T, StorageError>,
) -> T {
    loop {
        store.begin().unwrap();
        match work(store).and_then(|done| store.commit().map(|()| done)) {
            Ok(done) => return done,
            Err(error) if error.kind == StorageErrorKind::Conflict => store.rollback().unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Ends these jobs and hands out up to `most` others.
fn exchange(store: &mut dyn Storage, ended: &[Job], most: usize, now: i64) -> Vec<Job> {
    let done =
        ended.iter().map(|job| Operation::Worker { done: Some((&job.attr_path, 0)), connection: None });
    let ready = (0..most).map(|_| Operation::Worker { done: None, connection: Some("1") });
    let batch: Vec<Operation<'_>> = done.chain(ready).collect();
    let outcomes = retried(store, |s| s.serve(&batch, 0, now));
    let job = |outcome| match outcome {
        Outcome::Worker { job, .. } => job,
        other => panic!("{other:?}"),
    };
    outcomes.into_iter().filter_map(job).collect()
}

/// Hands out and ends jobs until `is_over` and none is left: a hand-out looks from the head once a second.
/// Returns their paths and payloads.
fn work(store: &mut dyn Storage, most: usize, is_over: impl Fn() -> bool) -> Vec<(String, String)> {
    let (mut given, mut jobs, mut now) = (Vec::new(), Vec::new(), 10);
    loop {
        let (last, from_head) = (is_over(), jobs.is_empty());
        now += i64::from(from_head);
        jobs = exchange(store, &jobs, most, now);
        given.extend(jobs.iter().map(|job| (job.attr_path.clone(), job.payload.clone())));
        if jobs.is_empty() && last && from_head {
            return given;
        }
    }
}

fn paths(count: usize) -> BTreeSet<String> {
    (0..count).map(|n| format!("pkg{n}")).collect()
}

#[test]
fn two_instances_hand_out_each_path_once() {
    let (mut one, mut observer) = shared(&[]);
    feed_batch(&mut one, "f1", 1, &packages(2_000));
    let given = together(&one, |mut store, mut observer| {
        let mut given: Vec<String> = Vec::new();
        loop {
            let jobs = exchange(&mut store, &[], 8, 10);
            if jobs.is_empty() && observer.waiting() == 0 {
                return given;
            }
            given.extend(jobs.into_iter().map(|job| job.attr_path));
        }
    });
    assert!(given.iter().all(|part| !part.is_empty()), "both took part");
    let all = given.concat();
    assert_eq!((all.len(), all.into_iter().collect()), (2_000, paths(2_000)));
    assert_eq!(observer.number("SELECT count(*) FROM in_flight WHERE is_held"), 2_000);
}

#[test]
fn instances_together_keep_the_limits() {
    let (mut one, mut observer) = shared(&[(Some("py*"), None, 5), (None, Some("f2"), 3)]);
    let batch = |prefix: &str| -> Vec<(String, String)> {
        (0..150).map(|n| (format!("{prefix}{n}"), "0 1".to_owned())).collect()
    };
    for (fetcher, prefix) in [("f1", "py"), ("f2", "other"), ("f3", "free")] {
        let lines = batch(prefix);
        let lines: Vec<(&str, &str)> = lines.iter().map(|(a, p)| (a.as_str(), p.as_str())).collect();
        feed(&mut one, fetcher, 1, &lines);
    }
    let is_over = AtomicBool::new(false);
    let (given, most) = scope(|threads| {
        let (is_over, schema) = (&is_over, one.schema.clone());
        let watch = threads.spawn(move || {
            let mut observer = Observer::of(&schema);
            let mut most = [0; 2];
            while !is_over.load(SeqCst) {
                for (class, most) in (1..).zip(&mut most) {
                    let held = format!("SELECT count(*) FROM in_flight WHERE class = {class} AND is_held");
                    *most = observer.number(&held).max(*most);
                }
            }
            most
        });
        let given = together(&one, |mut store, mut observer| {
            let (mut given, mut jobs) = (Vec::new(), Vec::new());
            while !jobs.is_empty() || observer.waiting() > 0 {
                jobs = exchange(&mut store, &jobs, 8, 10);
                given.extend(jobs.iter().map(|job: &Job| job.attr_path.clone()));
            }
            given
        });
        is_over.store(true, SeqCst);
        (given.concat(), watch.join().unwrap())
    });
    assert_eq!(most, [5, 3], "at most, and the limits were reached");
    assert_eq!((given.len(), given.into_iter().collect::<HashSet<_>>().len()), (450, 450));
    assert_eq!(observer.number("SELECT count(*) FROM slot"), 8);
}

#[test]
fn a_path_of_two_instances_waits_for_the_end_of_the_first() {
    let (mut one, _observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    feed(&mut one, "f1", 1, &[("alpha", "of one")]);
    feed(&mut two, "f2", 1, &[("alpha", "of two")]);
    assert_eq!(next(&mut two, 10), job("alpha", "of one"));
    assert_eq!((next(&mut one, 11), next(&mut two, 11)), (None, None));
    group(&mut two, |s| s.finish("alpha", 0, 12));
    assert_eq!(next(&mut one, 13), job("alpha", "of two"));
}

#[test]
fn a_path_of_two_instances_is_never_in_flight_twice() {
    let (mut one, mut observer) = shared(&[(None, Some("f1"), 7), (None, Some("f2"), 7)]);
    let in_flight = Mutex::new(HashSet::new());
    feed_batch(&mut one, "f1", 1, &packages(120));
    feed_batch(&mut open(&one.settings("four")), "f2", 1, &packages(120));
    let given = together(&one, |mut store, mut observer| {
        let (mut given, mut jobs) = (0, Vec::new());
        while !jobs.is_empty() || observer.waiting() > 0 {
            in_flight.lock().unwrap().retain(|path| jobs.iter().all(|job: &Job| job.attr_path != *path));
            jobs = exchange(&mut store, &jobs, 4, 10);
            for job in &jobs {
                assert!(in_flight.lock().unwrap().insert(job.attr_path.clone()), "{job:?} twice");
            }
            given += jobs.len();
        }
        given
    });
    let given: usize = given.iter().sum();
    assert_eq!((given, observer.waiting()), (240, 0));
}

#[test]
fn the_end_of_a_job_waits_for_the_ingest_of_its_path() {
    let (mut one, mut observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    feed(&mut one, "f1", 1, &[("alpha", "old")]);
    assert_eq!(next(&mut two, 10), job("alpha", "old"));
    let newer = RunId::new("f1", 2);
    one.begin().unwrap();
    assert_eq!(one.upsert_run(&newer, false).unwrap(), Upsert::Done);
    one.enqueue(&newer, &lines(&[("alpha", "new")]), 0, None).unwrap();
    let end = spawn(move || {
        group(&mut two, |s| s.finish("alpha", 0, 11));
        two
    });
    observer.wait_for_lock(&end);
    one.commit().unwrap();
    let mut two = end.join().unwrap();
    assert_eq!(next(&mut two, 12), job("alpha", "new"));
}

#[test]
fn no_path_is_lost_between_ingest_and_the_ends_of_jobs() {
    const ROUNDS: usize = 10;
    let (mut one, mut observer) = shared(&[]);
    let is_over = AtomicBool::new(false);
    let given = scope(|threads| {
        let running = ["two", "three"].map(|instance| {
            let (settings, is_over) = (one.settings(instance), &is_over);
            threads.spawn(move || work(&mut open(&settings), 5, || is_over.load(SeqCst)))
        });
        for round in 0..ROUNDS {
            // The paths of the first run are in flight while the second one adds them in the order of their
            // locks.
            for run in [1, 2] {
                let payload = run.to_string();
                let lines = (0..20).map(|n| (format!("pkg{round}-{n:02}"), payload.clone()));
                let batches: Vec<Batch> = lines.map(|line| Batch::after(0, [line])).collect();
                let run = RunId::new("f1", run);
                retried(&mut one, |s| {
                    assert_eq!(s.upsert_run(&run, false)?, Upsert::Done);
                    batches.iter().try_for_each(|batch| s.enqueue(&run, batch, 0, None).map(drop))
                });
            }
        }
        is_over.store(true, SeqCst);
        running.map(|thread| thread.join().unwrap()).concat()
    });
    // An instance may have skipped rows that the last transaction of another one had locked.
    let rest = work(&mut one, 5, || true);
    assert_eq!(observer.waiting(), 0, "rows wait that nobody finds");
    let newest: HashSet<String> =
        given.into_iter().chain(rest).filter(|given| given.1 == "2").map(|given| given.0).collect();
    assert_eq!(newest.len(), 20 * ROUNDS);
}
