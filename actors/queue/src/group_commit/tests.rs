//! Group commit over a real store whose begin and commit fail on demand.

use std::{path::Path, time::Instant};

use orchestrator_edge::FaultInjector;
use orchestrator_supervise::{Pending, reply};
use orchestrator_supervise::{Root, Strategy, SupervisorSpec};

use super::*;
use crate::{
    edge::sqlite::{Options, SqliteStore},
    storage::{Batch, RunId},
};

/// A store that fails where the seam says.
struct Flaky {
    inner: SqliteStore,
    faults: FaultInjector,
}

impl Flaky {
    fn open(directory: &Path) -> Self {
        let inner = SqliteStore::open(&directory.join("q.db"), Options::default()).unwrap();
        Self { inner, faults: FaultInjector::enabled() }
    }

    fn full(&self) -> StorageError {
        StorageError::Full { path: self.inner.path().to_owned() }
    }
}

impl Storage for Flaky {
    fn begin(&mut self) -> Result<(), StorageError> {
        if self.faults.should_fail("begin") {
            return Err(StorageError::Busy { path: self.inner.path().to_owned() });
        }
        self.inner.begin()
    }
    fn commit(&mut self) -> Result<(), StorageError> {
        if self.faults.should_fail("commit") {
            self.inner.rollback()?;
            return Err(self.full());
        }
        self.inner.commit()
    }
    fn rollback(&mut self) -> Result<(), StorageError> {
        self.inner.rollback()
    }
    fn known_runs(&mut self) -> Result<Vec<RunState>, StorageError> {
        self.inner.known_runs()
    }
    fn upsert_run(&mut self, run: &RunId, complete: bool) -> Result<Upsert, StorageError> {
        self.inner.upsert_run(run, complete)
    }
    fn enqueue(
        &mut self,
        run: &RunId,
        batch: &Batch,
        from: usize,
        deadline: Option<Instant>,
    ) -> Result<usize, StorageError> {
        if self.faults.should_fail("enqueue") {
            return Err(self.full());
        }
        self.inner.enqueue(run, batch, from, deadline)
    }
    fn mark_deleted(&mut self, run: &RunId) -> Result<bool, StorageError> {
        self.inner.mark_deleted(run)
    }
    fn delete_slice(&mut self, budget: Duration) -> Result<Deletion, StorageError> {
        self.inner.delete_slice(budget)
    }
    fn dequeue(&mut self, now: i64) -> Result<Option<Job>, StorageError> {
        self.inner.dequeue(now)
    }
    fn finish(&mut self, attr_path: &str, exit_code: i64, now: i64) -> Result<bool, StorageError> {
        self.inner.finish(attr_path, exit_code, now)
    }
    fn delivered(&mut self, handout: HandoutId) -> Result<bool, StorageError> {
        self.inner.delivered(handout)
    }
    fn undo(&mut self, handout: HandoutId) -> Result<bool, StorageError> {
        self.inner.undo(handout)
    }
    fn undo_undelivered(&mut self) -> Result<usize, StorageError> {
        self.inner.undo_undelivered()
    }
    fn requeue(&mut self, attr_path: &str, now: i64) -> Result<Requeued, StorageError> {
        self.inner.requeue(attr_path, now)
    }
}

/// A site with metrics of a real child.
struct Bench {
    _directory: tempfile::TempDir,
    store: Flaky,
    group: GroupCommit,
    metrics: StoreMetrics,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Flaky::open(directory.path());
        let metrics = actix_rt::System::new().block_on(async {
            let mut root = Root::start("bench", SupervisorSpec::new(Strategy::OneForOne)).await.unwrap();
            let metrics = StoreMetrics::register(&root.tree().vitals("bench").unwrap());
            root.stop().await;
            metrics
        });
        Self { _directory: directory, store, group: GroupCommit::new(), metrics }
    }

    /// With a run `f/1` of these attribute paths, reconciled.
    fn with_rows(attr_paths: &[&str]) -> Self {
        let mut bench = Self::new();
        bench.ingest(IngestOp::UpsertRun { run: run(), complete: false });
        bench.ingest(rows(attr_paths));
        bench.ingest(IngestOp::Reconciled);
        bench
    }

    fn ingest(&mut self, op: IngestOp) {
        self.group.add_ingest(op);
        while !self.group.has_room_for_ingest() {
            self.turn().unwrap();
        }
    }

    fn turn(&mut self) -> Result<(), StorageError> {
        self.group.turn(&mut self.store, false, &self.metrics, || 100)
    }

    fn ready(&mut self) -> Pending<Option<Job>> {
        let (reply, answer) = reply();
        self.group.add_request(StoreRequest::Ready { reply });
        answer
    }
}

fn run() -> RunId {
    RunId::new("f", 1)
}

fn rows(attr_paths: &[&str]) -> IngestOp {
    let pairs = attr_paths.iter().map(|attr| ((*attr).to_owned(), "1 2".to_owned()));
    IngestOp::Rows { run: run(), rows: Batch::new(pairs), complete: false }
}

#[test]
fn no_answer_leaves_before_its_commit() {
    let mut bench = Bench::with_rows(&["a"]);
    let mut answer = bench.ready();
    for point in ["begin", "commit"] {
        bench.store.faults.arm(point, 1);
        assert!(bench.turn().is_err());
        assert_eq!(answer.try_recv(), Ok(None), "answered although {point} failed");
    }
    bench.turn().unwrap();
    assert_eq!(answer.try_recv().unwrap().expect("an answer").unwrap().attr_path, "a");
}

#[test]
fn one_job_goes_to_one_of_a_group() {
    let mut bench = Bench::with_rows(&["a"]);
    let (mut one, mut two) = (bench.ready(), bench.ready());
    bench.turn().unwrap();
    assert!(one.try_recv().unwrap().expect("an answer").is_some());
    assert_eq!(two.try_recv().unwrap().expect("an answer"), None);
}

#[test]
fn an_asker_that_went_away_gets_no_job_but_its_done_counts() {
    let mut bench = Bench::with_rows(&["a", "b"]);
    let mut first = bench.ready();
    bench.turn().unwrap();
    let job = first.try_recv().unwrap().expect("an answer").unwrap();
    bench.group.add_request(StoreRequest::Delivered(job.handout));
    let (reply, gone) = reply();
    drop(gone);
    bench.group.add_request(StoreRequest::Done { attr_path: job.attr_path.clone(), exit_code: 3, reply });
    bench.turn().unwrap();
    assert_eq!((bench.metrics.finished.get(), bench.metrics.jobs.get()), (1, 1));
    let mut next = bench.ready();
    bench.turn().unwrap();
    assert_ne!(next.try_recv().unwrap().expect("an answer").unwrap().attr_path, job.attr_path);
}

#[test]
fn an_unread_reply_is_taken_back_while_its_notice_waits() {
    let mut bench = Bench::with_rows(&["a"]);
    let mut answer = bench.ready();
    bench.turn().unwrap();
    let handout = answer.try_recv().unwrap().expect("an answer").unwrap().handout;
    bench.group.add_request(StoreRequest::Delivered(handout));
    bench.group.add_request(StoreRequest::Undo(handout));
    bench.turn().unwrap();
    assert_eq!(bench.metrics.undone.get(), 1);
    let mut again = bench.ready();
    bench.turn().unwrap();
    assert_eq!(again.try_recv().unwrap().expect("an answer").unwrap().attr_path, "a");
}

#[test]
fn a_new_incarnation_takes_back_what_nobody_received() {
    let mut bench = Bench::with_rows(&["a", "b"]);
    let (mut one, mut two) = (bench.ready(), bench.ready());
    bench.turn().unwrap();
    let received = one.try_recv().unwrap().expect("an answer").unwrap();
    let lost = two.try_recv().unwrap().expect("an answer").unwrap();
    let mut next = GroupCommit::new();
    // The notice of the first was still on its way when the store died.
    next.add_request(StoreRequest::Delivered(received.handout));
    bench.store.faults.arm("begin", 1);
    assert!(next.recover(&mut bench.store).is_err());
    assert_eq!(next.recover(&mut bench.store).unwrap(), 1);
    bench.group = next;
    bench.ingest(IngestOp::Reconciled);
    let mut again = bench.ready();
    bench.turn().unwrap();
    assert_eq!(again.try_recv().unwrap().expect("an answer").unwrap().attr_path, lost.attr_path);
}

#[test]
fn nobody_is_answered_before_the_directory_was_worked_in() {
    let mut bench = Bench::new();
    let mut answer = bench.ready();
    bench.ingest(IngestOp::UpsertRun { run: run(), complete: false });
    bench.ingest(rows(&["a"]));
    assert_eq!(answer.try_recv(), Ok(None));
    bench.ingest(IngestOp::Reconciled);
    bench.turn().unwrap();
    assert!(answer.try_recv().unwrap().expect("an answer").is_some());
}

#[test]
fn workers_are_served_while_ingest_has_no_space() {
    let mut bench = Bench::with_rows(&["a"]);
    bench.group.add_ingest(rows(&["b"]));
    bench.store.faults.arm("enqueue", 2);
    for job in [Some("a"), None] {
        let mut answer = bench.ready();
        // One of two turns is the ingest's, and fails; the other one is the worker's.
        let turns = [bench.turn().is_ok(), bench.turn().is_ok()];
        assert_eq!(turns.iter().filter(|ok| **ok).count(), 1, "{turns:?}");
        assert_eq!(answer.try_recv().unwrap().expect("an answer").map(|job| job.attr_path).as_deref(), job);
    }
    while !bench.group.has_room_for_ingest() {
        bench.turn().unwrap();
    }
    assert_eq!(bench.metrics.rows.get(), 2, "the refused rows came in later, once");
}

#[test]
fn ingest_gets_its_turns_under_a_flood_of_requests() {
    let mut bench = Bench::with_rows(&["a"]);
    bench.group.add_ingest(rows(&["b"]));
    for _ in 0..2 {
        let _answer = bench.ready();
        bench.turn().unwrap();
    }
    assert!(bench.group.has_room_for_ingest(), "requests alone had turns");
}

#[test]
fn other_work_shares_the_turns_with_requests() {
    let mut bench = Bench::with_rows(&["a", "b"]);
    let _first = bench.ready();
    assert!(bench.group.next_serves_requests(true), "ingest had the turn before");
    bench.turn().unwrap();
    let _second = bench.ready();
    assert!(!bench.group.next_serves_requests(true), "two turns for requests while other work waits");
    assert!(bench.group.next_serves_requests(false));
    bench.group.end_background_turn();
    assert!(bench.group.next_serves_requests(true));
}

#[test]
fn while_paused_every_worker_hears_nojobs_and_done_counts() {
    let mut bench = Bench::with_rows(&["a", "b"]);
    let mut first = bench.ready();
    bench.turn().unwrap();
    let job = first.try_recv().unwrap().expect("an answer").unwrap();
    let (reply, mut answer) = reply();
    bench.group.add_request(StoreRequest::Done { attr_path: job.attr_path, exit_code: 0, reply });
    bench.group.turn(&mut bench.store, true, &bench.metrics, || 100).unwrap();
    assert_eq!(answer.try_recv().unwrap().expect("an answer"), None);
    assert_eq!(bench.metrics.finished.get(), 1);
}

#[test]
fn complete_comes_with_the_last_rows_and_rows_of_a_gone_run_are_dropped() {
    let mut bench = Bench::with_rows(&["a"]);
    let op =
        IngestOp::Rows { run: run(), rows: Batch::new([("b".to_owned(), "1".to_owned())]), complete: true };
    bench.group.add_ingest(op);
    bench.store.faults.arm("commit", 1);
    assert!(bench.turn().is_err());
    bench.store.begin().unwrap();
    assert!(!bench.store.known_runs().unwrap()[0].complete, "complete without its rows");
    bench.store.rollback().unwrap();
    while !bench.group.has_room_for_ingest() {
        bench.turn().unwrap();
    }
    bench.store.begin().unwrap();
    assert!(bench.store.known_runs().unwrap()[0].complete);
    bench.store.rollback().unwrap();
    bench.ingest(IngestOp::UpsertRun { run: RunId::new("f", 2), complete: false });
    bench.ingest(IngestOp::DeleteRun { run: run() });
    bench.ingest(rows(&["late"]));
}
