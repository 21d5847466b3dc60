//! Several instances on one schema: concurrent hand-outs, races between transactions, and the place of an instance.

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
use orchestrator_exchange::JobId;
use orchestrator_harness::wait_for;
use orchestrator_supervise::StopToken;
use tokio::runtime::Runtime;

use crate::{
    edge::{
        postgres::{OwnIncarnation, PostgresStore, Settings},
        sqlite::Options,
    },
    storage::{
        Batch, Bumped, Deletion, Job, Limit, Limits, Operation, Outcome, RunId, Storage, StorageError, Upsert,
    },
    tests::store::*,
};

/// Connection of an observer.
struct Observer {
    runtime: Runtime,
    session: Session,
    schema: String,
}

impl Observer {
    fn of(schema: &str) -> Self {
        let settings = SessionSettings {
            sql: "",
            connect_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(60),
            row_max: 1 << 20,
            answer_max: 1 << 20,
        };
        let address = Address::parse(database(), "observer").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(Session::open(&address, &settings)).unwrap();
        let mut made = Self { runtime, session, schema: schema.to_owned() };
        made.run(&format!("SET search_path = {schema}"));
        made
    }

    fn run(&mut self, sql: &str) {
        self.runtime.block_on(self.session.batch("observing", sql)).unwrap();
    }

    fn number(&mut self, sql: &str) -> i64 {
        let rows = self.runtime.block_on(self.session.query("observing", sql.to_owned(), vec![])).unwrap();
        rows[0].get(0)
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
    PostgresStore::open(settings.clone(), &OwnIncarnation::default(), StopToken::new()).unwrap()
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
            Err(StorageError::Database(error))
                if error.state.as_ref().is_some_and(|state| ["40001", "40P01"].contains(&state.code())) =>
            {
                store.rollback().unwrap();
            }
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
    let outcomes = retried(store, |s| s.serve(&batch, now));
    let job = |outcome| match outcome {
        Outcome::Worker { job, .. } => job,
        other => panic!("{other:?}"),
    };
    outcomes.into_iter().filter_map(job).collect()
}

/// Hands out and ends jobs until `is_over` and none is left. Returns their paths and payloads.
fn work(store: &mut dyn Storage, most: usize, is_over: impl Fn() -> bool) -> Vec<(String, String)> {
    let (mut given, mut jobs) = (Vec::new(), Vec::new());
    loop {
        let last = is_over();
        jobs = exchange(store, &jobs, most, 10);
        given.extend(jobs.iter().map(|job| (job.attr_path.clone(), job.payload.clone())));
        if jobs.is_empty() && last {
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
    assert_eq!(observer.number("SELECT count(*) FROM slot WHERE handout_id IS NOT NULL"), 0);
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
            // The paths of the first run are in flight while the second one adds them in the order of their locks.
            for run in [1, 2] {
                let payload = run.to_string();
                let lines = (0..20).map(|n| (format!("pkg{round}-{n:02}"), payload.clone()));
                let batches: Vec<Batch> = lines.map(|line| Batch::new([line])).collect();
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

#[test]
fn a_deleted_run_is_handed_out_no_more_while_others_hand_out_and_add() {
    const PATHS: usize = 900;
    let (mut one, mut observer) = shared(&[]);
    let batch = |payload: &str| Batch::new((0..PATHS).map(|n| (format!("pkg{n}"), payload.to_owned())));
    feed_batch(&mut one, "f1", 1, &batch("old"));
    feed_batch(&mut one, "f1", 2, &batch("deleted"));
    let (is_deleted, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let given = scope(|threads| {
        let (settings, is_deleted, is_over) = (one.settings("two"), &is_deleted, &is_over);
        let worker = threads.spawn(move || {
            let mut store = open(&settings);
            let (mut given, mut jobs) = (Vec::new(), Vec::new());
            loop {
                let (after, last) = (is_deleted.load(SeqCst), is_over.load(SeqCst));
                jobs = exchange(&mut store, &jobs, 8, 10);
                assert!(!after || jobs.iter().all(|job| job.payload != "deleted"), "{jobs:?}");
                given.extend(jobs.iter().map(|job| (job.attr_path.clone(), job.payload.clone())));
                if jobs.is_empty() && last {
                    return given;
                }
            }
        });
        let settings = one.settings("three");
        let other = threads.spawn(move || {
            let mut store = open(&settings);
            let (run, batch) = (RunId::new("f2", 1), packages(PATHS));
            assert_eq!(group(&mut store, |s| s.upsert_run(&run, false)), Upsert::Done);
            let entries = batch.entries_from(0).chunks(10);
            for part in entries {
                let part = Batch::new(part.iter().map(|entry| (entry.attr_path.clone(), "other".to_owned())));
                retried(&mut store, |s| s.enqueue(&run, &part, 0, None));
            }
        });
        retried(&mut one, |s| s.mark_deleted(&RunId::new("f1", 2)));
        while retried(&mut one, |s| s.delete_slice(Duration::ZERO)) == Deletion::More {}
        is_deleted.store(true, SeqCst);
        other.join().unwrap();
        is_over.store(true, SeqCst);
        worker.join().unwrap()
    });
    assert_eq!(observer.waiting(), 0, "rows wait that nobody finds");
    let mut counts: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for (attr_path, payload) in &given {
        *counts.entry((attr_path, payload == "other")).or_default() += 1;
    }
    assert_eq!(counts.len(), 2 * PATHS, "for both fetchers, the older run where the newer was deleted");
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[test]
fn a_path_added_while_an_offer_of_it_is_withdrawn_waits() {
    let (mut one, mut observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    let offered = JobId::new("catalog.lab.work", "alpha", "1");
    group(&mut one, |s| s.offer(&offered, "payload"));
    observer.hold("BEFORE DELETE ON ready");
    let withdrawal = spawn(move || group(&mut one, |s| s.withdraw(&offered)));
    observer.wait_for_lock(&withdrawal);
    let addition = spawn(move || {
        feed(&mut two, "f2", 1, &[("alpha", "other")]);
        two
    });
    wait_for("the addition", || {
        let blocked = observer.number(
            "SELECT count(*) FROM pg_stat_activity AS a WHERE cardinality(pg_blocking_pids(a.pid)) > 0
                 AND a.query LIKE 'SELECT ingest%'",
        );
        (blocked > 0 || addition.is_finished()).then_some(())
    });
    observer.release();
    assert!(withdrawal.join().unwrap());
    let mut two = addition.join().unwrap();
    assert_eq!(next(&mut two, 10), job("alpha", "other"));
}

#[test]
fn a_row_removed_during_its_hand_out_is_not_in_flight() {
    for event in ["BEFORE DELETE ON ready", "AFTER INSERT ON in_flight"] {
        let (mut one, mut observer) = shared(&[(Some("alpha"), None, 1)]);
        let mut two = open(&one.settings("two"));
        feed(&mut one, "f1", 1, &[("alpha", "old")]);
        feed(&mut one, "f1", 2, &[("alpha", "new")]);
        observer.hold(event);
        let handout = spawn(move || (next(&mut two, 10), two));
        observer.wait_for_lock(&handout);
        observer.run("DELETE FROM listing WHERE run_started = 2");
        observer.release();
        let (given, mut two) = handout.join().unwrap();
        if given.is_none() {
            assert_eq!(next(&mut two, 11), job("alpha", "old"), "{event}");
        } else {
            assert_eq!(given, job("alpha", "old"), "{event}");
        }
    }
}

#[test]
fn a_job_withdrawn_during_its_hand_out_is_not_in_flight() {
    let (mut one, mut observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    let offered = JobId::new("catalog.lab.work", "alpha", "1");
    group(&mut one, |s| s.offer(&offered, "payload"));
    observer.hold("AFTER INSERT ON in_flight");
    let handout = spawn(move || (next(&mut two, 10), two));
    observer.wait_for_lock(&handout);
    assert!(group(&mut one, |s| s.withdraw(&offered)));
    observer.release();
    let (given, mut two) = handout.join().unwrap();
    assert_eq!(given, None);
    feed(&mut one, "f1", 1, &[("alpha", "0 1")]);
    assert_eq!(next(&mut two, 11), job("alpha", "0 1"), "nothing holds the path");
}

#[test]
fn a_fetcher_belongs_to_one_instance() {
    let (mut one, _observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    let upsert = |s: &mut PostgresStore, fetcher: &str| {
        s.begin().unwrap();
        let error = s.upsert_run(&RunId::new(fetcher, 2), false).unwrap_err();
        s.rollback().unwrap();
        let StorageError::OtherInstance { fetcher, instance } = error else { panic!("{error}") };
        (fetcher, instance)
    };
    feed(&mut one, "f1", 1, &[("alpha", "0 1")]);
    assert_eq!(upsert(&mut two, "f1"), ("f1".to_owned(), "one".to_owned()));
    // Both add it at the same time.
    one.begin().unwrap();
    assert_eq!(one.upsert_run(&RunId::new("f2", 1), false).unwrap(), Upsert::Done);
    let mut observer = Observer::of(&one.schema);
    let other = spawn(move || upsert(&mut two, "f2"));
    observer.wait_for_lock(&other);
    one.commit().unwrap();
    assert_eq!(other.join().unwrap(), ("f2".to_owned(), "one".to_owned()));
}

#[test]
fn p08_a_done_at_another_instance_counts() {
    let (mut one, mut observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    feed(&mut one, "f1", 1, &[("alpha", "0 1")]);
    assert_eq!(next_attr(&mut one, 10).as_deref(), Some("alpha"));
    for (code, now) in [(3, 15), (0, 16)] {
        let finished = group(&mut two, |s| s.finish("alpha", code, now)).expect("it was handed out");
        assert_eq!(finished.seconds, now - 10);
        let log = format!("SELECT count(*) FROM log WHERE finished = {now} AND exit_code = {code}");
        assert_eq!(observer.number(&log), 1);
    }
    feed(&mut one, "f1", 2, &[("alpha", "0 2")]);
    assert_eq!(next(&mut one, 17), job("alpha", "0 2"));
}

#[test]
fn a_start_leaves_the_bumps_of_others() {
    let (mut one, _observer) = shared(&[]);
    let mut two = open(&one.settings("two"));
    feed_batch(&mut one, "f1", 1, &packages(20));
    assert_eq!(group(&mut two, |s| s.bump("pkg7")), Bumped::Done);
    let bumped = take(&mut two, 10).unwrap();
    assert_eq!(bumped.attr_path, "pkg7");
    assert!(group(&mut two, |s| s.delivered(bumped.handout)));
    assert_eq!(one.crash(), 0);
    assert!(group(&mut two, |s| s.undo(bumped.handout)));
    assert_eq!(next_attr(&mut two, 11).as_deref(), Some("pkg7"), "the bump counts again");
}

fn refusal(settings: &Settings) -> String {
    PostgresStore::open(settings.clone(), &OwnIncarnation::default(), StopToken::new())
        .expect_err("the place is taken")
        .to_string()
}

fn set_lease(observer: &mut Observer, instance: &str, seconds: i64) {
    observer.run(&format!(
        "UPDATE instance SET lease_until = now() + interval '{seconds} s' WHERE instance = '{instance}'"
    ));
}

#[test]
fn a_process_takes_the_place_of_one_that_ended() {
    let (one, mut observer) = shared(&[]);
    let settings = one.settings("two");
    let first = open(&settings);
    set_lease(&mut observer, "two", 3_600);
    let refused = refusal(&settings);
    assert!(refused.contains("instance two is in use on host here with the socket worker.sock"), "{refused}");
    assert!(refused.contains("OQ002"), "{refused}");
    drop(first);
    place_of(&settings);
}

#[test]
fn a_process_whose_lease_is_over_is_fenced() {
    let (mut one, mut observer) = shared(&[]);
    let settings = one.settings("two");
    let mut first = open(&settings);
    feed_batch(&mut one, "f1", 1, &packages(3));
    let delivered = take(&mut first, 10).unwrap();
    group(&mut first, |s| s.delivered(delivered.handout));
    let undone = take(&mut first, 10).unwrap();
    set_lease(&mut observer, "two", -1);
    let mut second = open(&settings);
    let error = first.begin().unwrap_err().to_string();
    assert!(error.contains("OQ001") && error.contains("instance two"), "{error}");
    assert_eq!(group(&mut second, |s| s.undo_undelivered()), 1);
    let mut rest: Vec<String> = std::iter::from_fn(|| next_attr(&mut second, 11)).collect();
    rest.sort();
    let mut expected = paths(3);
    expected.remove(&delivered.attr_path);
    assert!(expected.contains(&undone.attr_path));
    assert_eq!(rest, expected.into_iter().collect::<Vec<_>>());
    // The second has no lock, so a free one does not mean its end.
    drop(first);
    let free = advisory_locks(&one, "two", "count(*)");
    wait_for("the end of the first", || (observer.number(&free) == 0).then_some(()));
    set_lease(&mut observer, "two", 3_600);
    let refused = refusal(&settings);
    assert!(refused.contains("OQ002"), "{refused}");
    group(&mut second, |s| s.finish(&undone.attr_path, 0, 12));
}

/// Query about the sessions that have the lock of an instance.
fn advisory_locks(store: &TestStore, instance: &str, column: &str) -> String {
    format!(
        "SELECT {column} FROM pg_locks WHERE locktype = 'advisory'
             AND (classid::bigint << 32 | objid::bigint) = hashtextextended('{}/{instance}', 0)",
        store.schema
    )
}

#[test]
fn an_instance_keeps_its_place_when_its_session_is_lost() {
    let (mut one, mut observer) = shared(&[]);
    let settings = one.settings("two");
    let mut first = open(&settings);
    set_lease(&mut observer, "two", 3_600);
    feed(&mut one, "f1", 1, &[("alpha", "0 1")]);
    first.begin().unwrap();
    assert!(first.dequeue(10, "1").unwrap().is_some());
    observer.number(&advisory_locks(&one, "two", "pg_terminate_backend(pid)::integer::bigint"));
    first.commit().unwrap_err();
    assert_eq!(next_attr(&mut first, 11).as_deref(), Some("alpha"), "the hand-out was not committed");
    let refused = refusal(&settings);
    assert!(refused.contains("OQ002"), "{refused}");
    drop(first);
    place_of(&settings);
}
