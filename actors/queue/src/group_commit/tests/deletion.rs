//! Transactions of a deletion, with and without a sync.

use super::*;
use orchestrator_queue_sqlite::LogFile;

/// However slow the machine is: a slice has a minimum of rows, and two of three turns need no sync.
#[test]
fn a_third_of_a_hundred_thousand_rows_goes_with_few_syncs() {
    const ROWS: usize = 33_333;
    let mut fixture = Fixture::new();
    let pairs = (0..ROWS).map(|n| (format!("pkg{n}"), "1 2".to_owned()));
    fixture.ingest(IngestOp::UpsertRun { run: run(), complete: false });
    fixture.ingest(IngestOp::Rows { run: run(), rows: Batch::after(0, pairs), complete: true, _held: None });
    fixture.ingest(IngestOp::Reconciled);
    while fixture.group.has_work() {
        fixture.turn().unwrap();
    }
    fixture.ingest(IngestOp::DeleteRun { run: run() });
    assert_eq!(fixture.store.begun.last(), Some(&false), "the mark is durable");
    fixture.store.begun.clear();
    while fixture.group.has_work() {
        fixture.turn().unwrap();
    }
    let begun = &fixture.store.begun;
    assert!(begun.len() <= ROWS / 256 + 5, "{} transactions", begun.len());
    let synced = begun.iter().filter(|is_unsynced| !**is_unsynced).count();
    assert!(synced <= begun.len() / 3 + 1, "{synced} of {} have a sync", begun.len());
    fixture.store.begin().unwrap();
    assert_eq!(fixture.store.known_runs().unwrap(), []);
    fixture.store.rollback().unwrap();
}

/// A run `f/1` with jobs, and 5,000 rows of a deleted one.
fn deleting() -> Fixture {
    let mut fixture = Fixture::with_rows(&["a", "b"]);
    let other = RunId::new("g", 1);
    let pairs = (0..5_000).map(|n| (format!("pkg{n}"), "1 2".to_owned()));
    fixture.ingest(IngestOp::UpsertRun { run: other.clone(), complete: false });
    fixture.ingest(IngestOp::Rows {
        run: other.clone(),
        rows: Batch::after(0, pairs),
        complete: true,
        _held: None,
    });
    fixture.ingest(IngestOp::DeleteRun { run: other });
    fixture
}

#[test]
fn an_answer_waits_for_the_sync_of_the_log_and_not_for_the_slice_beside_it() {
    let mut fixture = deleting();
    let mut answer = fixture.ready();
    let (send, jobs) = std::sync::mpsc::channel();
    fixture.store.before_slice = Box::new(move || {
        let give_up = Instant::now() + Duration::from_secs(10);
        while Instant::now() < give_up {
            match answer.try_recv() {
                Ok(None) => std::thread::yield_now(),
                Ok(Some(job)) => return send.send(job).unwrap(),
                Err(_) => return,
            }
        }
    });
    fixture.store.begun.clear();
    fixture.turn().unwrap();
    assert_eq!(fixture.store.begun, [true, true], "the requests, and a slice beside their sync");
    assert_eq!(jobs.try_recv().unwrap().expect("a job").job.attr_path, "a");
}

#[test]
fn each_slice_asks_whether_requests_wait() {
    let mut fixture = deleting();
    let _answer = fixture.ready();
    for kind in ["beside a sync", "alone"] {
        let asked = std::cell::Cell::new(false);
        fixture.turn_asking(&|| asked.replace(true)).unwrap();
        assert!(asked.get(), "{kind}");
    }
}

#[test]
fn no_answer_is_sent_if_the_log_cannot_be_synced() {
    let mut fixture = deleting();
    let device = std::fs::File::open("/dev/null").unwrap();
    fixture.store.log = Some(Arc::new(LogFile::new(&fixture.store.path, device)));
    let mut answer = fixture.ready();
    let error = fixture.turn().unwrap_err();
    assert!(error.kind == StorageErrorKind::Unsynced && !error.is_retryable(), "{error}");
    assert!(matches!(answer.try_recv(), Ok(None)));
}

#[test]
fn a_failed_slice_beside_a_sync_is_tried_alone_and_reported() {
    let mut fixture = deleting();
    let mut answer = fixture.ready();
    fixture.store.faults.arm("delete_slice", 2);
    fixture.turn().unwrap();
    assert!(answer.try_recv().unwrap().expect("an answer").is_some());
    let _waiting = fixture.ready();
    assert_eq!(fixture.turn().unwrap_err().kind, StorageErrorKind::Full);
}

#[test]
fn a_delivery_is_synced_during_a_deletion() {
    let mut fixture = deleting();
    let mut answer = fixture.ready();
    fixture.turn().unwrap();
    let job = answer.try_recv().unwrap().expect("an answer").unwrap().job;
    fixture.group.add_request(StoreRequest::Delivered(job.handout));
    fixture.store.begun.clear();
    while fixture.group.has_delivery_notices() {
        assert!(fixture.store.begun.len() < 6, "the notice waits for two turns at most");
        fixture.turn().unwrap();
    }
    assert_eq!(fixture.store.begun.last(), Some(&false), "the delivery is durable");
}
