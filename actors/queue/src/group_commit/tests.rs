//! Group commit over a real store whose operations fail on demand.

mod deletion;
mod offers;
mod room;

use std::{
    collections::HashMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use orchestrator_queue_rules::{
    protocol::Request,
    storage::{Batch, Deletion, Log, Outcome, RunId, StorageErrorKind, Upsert},
};
use orchestrator_supervise::{Pending, reply};
use orchestrator_supervise::{Root, Strategy, SupervisorSpec};

use super::*;
use orchestrator_queue_sqlite::{Options, SqliteStore};

use crate::messages::UnsentJob;

/// Operations that fail, each with the number of times left.
#[derive(Default)]
struct Faults(HashMap<&'static str, u32>);

impl Faults {
    /// Makes the next `times` calls of `point` fail.
    fn arm(&mut self, point: &'static str, times: u32) {
        self.0.insert(point, times);
    }

    fn should_fail(&mut self, point: &'static str) -> bool {
        let left = self.0.entry(point).or_default();
        let fails = *left > 0;
        *left = left.saturating_sub(1);
        fails
    }
}

/// A store that fails at armed fault points.
struct FaultyStore {
    inner: SqliteStore,
    path: std::path::PathBuf,
    faults: Faults,
    /// Transactions that began: true for those without a sync.
    begun: Vec<bool>,
    log: Option<Arc<dyn Log>>,
    /// Called before each slice of a deletion.
    before_slice: Box<dyn FnMut()>,
}

impl FaultyStore {
    fn open(directory: &Path) -> Self {
        let path = directory.join("q.db");
        let inner = SqliteStore::open(&path, Options::default()).unwrap();
        let log = inner.log();
        let before_slice = Box::new(|| ());
        Self { inner, path, faults: Faults::default(), begun: Vec::new(), log, before_slice }
    }

    fn full(&self) -> StorageError {
        StorageError::new(StorageErrorKind::Full, "full")
    }
}

impl Storage for FaultyStore {
    fn begin(&mut self) -> Result<(), StorageError> {
        if self.faults.should_fail("begin") {
            return Err(StorageError::new(StorageErrorKind::Busy, "busy"));
        }
        self.begun.push(false);
        self.inner.begin()
    }
    fn begin_unsynced(&mut self) -> Result<(), StorageError> {
        self.begun.push(true);
        self.inner.begin_unsynced()
    }
    fn log(&self) -> Option<Arc<dyn Log>> {
        self.log.clone()
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
    fn delete_slice(&mut self, may_continue: &dyn Fn() -> bool) -> Result<Deletion, StorageError> {
        (self.before_slice)();
        if self.faults.should_fail("delete_slice") {
            return Err(self.full());
        }
        self.inner.delete_slice(may_continue)
    }
    fn serve(
        &mut self,
        batch: &[Operation<'_>],
        unsent: u64,
        now: i64,
    ) -> Result<Vec<Outcome>, StorageError> {
        self.inner.serve(batch, unsent, now)
    }
    fn undo_undelivered(&mut self) -> Result<usize, StorageError> {
        self.inner.undo_undelivered()
    }
    fn withdraw_waiting(&mut self, now: i64) -> Result<usize, StorageError> {
        self.inner.withdraw_waiting(now)
    }
}

/// A store and a group commit with the metrics of a real child.
struct Fixture {
    _directory: tempfile::TempDir,
    store: FaultyStore,
    group: GroupCommit,
    metrics: StoreMetrics,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = FaultyStore::open(directory.path());
        let metrics = actix_rt::System::new().block_on(async {
            let mut root = Root::start("bench", SupervisorSpec::new(Strategy::OneForOne)).await.unwrap();
            let metrics = StoreMetrics::register(&root.tree().vitals("bench").unwrap());
            root.stop().await;
            metrics
        });
        Self { _directory: directory, store, group: GroupCommit::new(), metrics }
    }

    /// Creates a reconciled fixture with a run `f/1` of these attribute paths.
    fn with_rows(attr_paths: &[&str]) -> Self {
        let mut fixture = Self::new();
        fixture.ingest(IngestOp::UpsertRun { run: run(), complete: false });
        fixture.ingest(rows(attr_paths));
        fixture.ingest(IngestOp::Reconciled);
        fixture
    }

    fn ingest(&mut self, op: IngestOp) {
        self.group.add_ingest(op);
        while !self.group.has_room_for_ingest() {
            self.turn().unwrap();
        }
    }

    fn turn(&mut self) -> Result<Vec<FinishedJob>, StorageError> {
        self.turn_asking(&|| false)
    }

    fn turn_asking(&mut self, has_new_requests: &dyn Fn() -> bool) -> Result<Vec<FinishedJob>, StorageError> {
        self.group.turn(&mut self.store, true, false, has_new_requests, &self.metrics, 100)
    }

    fn ready(&mut self) -> Pending<Option<UnsentJob>> {
        let (reply, answer) = reply();
        self.group.add_request(StoreRequest::Worker {
            request: Request::Ready,
            connection: "1".into(),
            reply,
        });
        answer
    }
}

fn run() -> RunId {
    RunId::new("f", 1)
}

fn rows(attr_paths: &[&str]) -> IngestOp {
    let pairs = attr_paths.iter().map(|attr| ((*attr).to_owned(), "1 2".to_owned()));
    IngestOp::Rows { run: run(), rows: Batch::after(0, pairs), complete: false, _held: None }
}

#[test]
fn no_answer_leaves_before_its_commit() {
    let mut fixture = Fixture::with_rows(&["a"]);
    let mut answer = fixture.ready();
    for point in ["begin", "commit"] {
        fixture.store.faults.arm(point, 1);
        assert!(fixture.turn().is_err());
        assert!(matches!(answer.try_recv(), Ok(None)), "answered although {point} failed");
    }
    fixture.turn().unwrap();
    assert_eq!(answer.try_recv().unwrap().expect("an answer").unwrap().job.attr_path, "a");
}

#[test]
fn one_job_goes_to_one_request_of_a_group() {
    let mut fixture = Fixture::with_rows(&["a"]);
    let (mut one, mut two) = (fixture.ready(), fixture.ready());
    fixture.turn().unwrap();
    assert!(one.try_recv().unwrap().expect("an answer").is_some());
    assert!(two.try_recv().unwrap().expect("an answer").is_none());
}

#[test]
fn a_closed_connection_gets_no_job_but_its_done_counts() {
    let mut fixture = Fixture::with_rows(&["a", "b"]);
    let mut first = fixture.ready();
    fixture.turn().unwrap();
    let job = first.try_recv().unwrap().expect("an answer").unwrap().job;
    fixture.group.add_request(StoreRequest::Delivered(job.handout));
    let (reply, gone) = reply();
    drop(gone);
    fixture.group.add_request(StoreRequest::Worker {
        request: Request::Done { attr_path: job.attr_path.clone(), exit_code: 3 },
        connection: "1".into(),
        reply,
    });
    let finished = fixture.turn().unwrap();
    assert_eq!(finished, [FinishedJob { exit_code: 3, seconds: 0 }]);
    assert_eq!((fixture.metrics.finished.get(), fixture.metrics.jobs.get()), (1, 1));
    let mut next = fixture.ready();
    fixture.turn().unwrap();
    assert_ne!(next.try_recv().unwrap().expect("an answer").unwrap().job.attr_path, job.attr_path);
}

#[test]
fn an_unread_reply_is_undone_before_and_after_its_delivery_is_stored() {
    let mut fixture = Fixture::with_rows(&["a"]);
    for undone in 1..=2 {
        let mut answer = fixture.ready();
        fixture.turn().unwrap();
        let handout = answer.try_recv().unwrap().expect("an answer").unwrap().job.handout;
        fixture.group.add_request(StoreRequest::Delivered(handout));
        if undone == 2 {
            fixture.turn().unwrap();
        }
        fixture.group.add_request(StoreRequest::Undo(handout));
        fixture.turn().unwrap();
        assert_eq!(fixture.metrics.undone.get(), undone);
    }
    let mut again = fixture.ready();
    fixture.turn().unwrap();
    assert_eq!(again.try_recv().unwrap().expect("an answer").unwrap().job.attr_path, "a");
}

#[test]
fn a_new_incarnation_undoes_undelivered_hand_outs() {
    let mut fixture = Fixture::with_rows(&["a", "b"]);
    let (mut one, mut two) = (fixture.ready(), fixture.ready());
    fixture.turn().unwrap();
    let received = one.try_recv().unwrap().expect("an answer").unwrap().job;
    let lost = two.try_recv().unwrap().expect("an answer").unwrap().job;
    let mut next = GroupCommit::new();
    // The delivery notice of the first hand-out was still queued when the store ended.
    next.add_request(StoreRequest::Delivered(received.handout));
    fixture.store.faults.arm("begin", 1);
    assert!(next.recover(&mut fixture.store, 100).is_err());
    assert_eq!(next.recover(&mut fixture.store, 100).unwrap(), 1);
    fixture.group = next;
    fixture.ingest(IngestOp::Reconciled);
    let mut again = fixture.ready();
    fixture.turn().unwrap();
    assert_eq!(again.try_recv().unwrap().expect("an answer").unwrap().job.attr_path, lost.attr_path);
}

#[test]
fn requests_wait_for_the_first_listing() {
    let mut fixture = Fixture::new();
    let mut answer = fixture.ready();
    fixture.ingest(IngestOp::UpsertRun { run: run(), complete: false });
    fixture.ingest(rows(&["a"]));
    assert!(matches!(answer.try_recv(), Ok(None)));
    fixture.ingest(IngestOp::Reconciled);
    fixture.turn().unwrap();
    assert!(answer.try_recv().unwrap().expect("an answer").is_some());
}

#[test]
fn workers_are_served_while_ingest_fails() {
    let mut fixture = Fixture::with_rows(&["a"]);
    fixture.group.add_ingest(rows(&["b"]));
    fixture.store.faults.arm("enqueue", 2);
    for job in [Some("a"), None] {
        let mut answer = fixture.ready();
        // One of two turns serves the ingest and fails; the other one serves the worker.
        let turns = [fixture.turn().is_ok(), fixture.turn().is_ok()];
        assert_eq!(turns.iter().filter(|ok| **ok).count(), 1, "{turns:?}");
        assert_eq!(
            answer.try_recv().unwrap().expect("an answer").map(|unsent| unsent.job.attr_path).as_deref(),
            job
        );
    }
    while !fixture.group.has_room_for_ingest() {
        fixture.turn().unwrap();
    }
    assert_eq!(fixture.metrics.rows.get(), 2, "the refused rows are stored later, once");
}

#[test]
fn ingest_makes_progress_under_a_flood_of_requests() {
    let mut fixture = Fixture::with_rows(&["a"]);
    fixture.group.add_ingest(rows(&["b"]));
    for _ in 0..2 {
        let _answer = fixture.ready();
        fixture.turn().unwrap();
    }
    assert!(fixture.group.has_room_for_ingest(), "only requests had turns");
}

#[test]
fn background_work_alternates_with_requests() {
    let mut fixture = Fixture::with_rows(&["a", "b"]);
    let _first = fixture.ready();
    assert!(fixture.group.next_serves_requests(true), "ingest had the turn before");
    fixture.turn().unwrap();
    let _second = fixture.ready();
    assert!(!fixture.group.next_serves_requests(true), "two turns for requests while other work waits");
    assert!(fixture.group.next_serves_requests(false));
    fixture.group.end_background_turn();
    assert!(fixture.group.next_serves_requests(true));
}

#[test]
fn while_paused_workers_get_nojobs_and_done_counts() {
    let mut fixture = Fixture::with_rows(&["a", "b"]);
    let mut first = fixture.ready();
    fixture.turn().unwrap();
    let job = first.try_recv().unwrap().expect("an answer").unwrap().job;
    let (reply, mut answer) = reply();
    fixture.group.add_request(StoreRequest::Worker {
        request: Request::Done { attr_path: job.attr_path, exit_code: 0 },
        connection: "1".into(),
        reply,
    });
    fixture.group.turn(&mut fixture.store, true, true, &|| false, &fixture.metrics, 100).unwrap();
    assert!(answer.try_recv().unwrap().expect("an answer").is_none());
    assert_eq!(fixture.metrics.finished.get(), 1);
}

#[test]
fn complete_is_committed_with_the_last_rows_and_rows_of_deleted_runs_are_dropped() {
    let mut fixture = Fixture::with_rows(&["a"]);
    let last = Batch::after(0, [("b".to_owned(), "1".to_owned())]);
    let op = IngestOp::Rows { run: run(), rows: last, complete: true, _held: None };
    fixture.group.add_ingest(op);
    fixture.store.faults.arm("commit", 1);
    assert!(fixture.turn().is_err());
    fixture.store.begin().unwrap();
    assert!(!fixture.store.known_runs().unwrap()[0].complete, "complete without its rows");
    fixture.store.rollback().unwrap();
    while !fixture.group.has_room_for_ingest() {
        fixture.turn().unwrap();
    }
    fixture.store.begin().unwrap();
    assert!(fixture.store.known_runs().unwrap()[0].complete);
    fixture.store.rollback().unwrap();
    fixture.ingest(IngestOp::UpsertRun { run: RunId::new("f", 2), complete: false });
    fixture.ingest(IngestOp::DeleteRun { run: run() });
    fixture.ingest(rows(&["late"]));
}

#[test]
fn the_last_rows_of_a_deleted_fetcher_add_no_run() {
    let mut fixture = Fixture::new();
    fixture.ingest(IngestOp::Rows { run: run(), rows: Batch::default(), complete: true, _held: None });
    fixture.store.begin().unwrap();
    // A run that is complete would not be read again from its file.
    assert_eq!(fixture.store.known_runs().unwrap(), []);
    fixture.store.rollback().unwrap();
}
