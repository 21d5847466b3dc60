//! Transactions of a deletion, with and without a sync.

use super::*;

/// However slow the machine is: a slice has a minimum of rows, and two of three turns need no sync.
#[test]
fn a_third_of_a_hundred_thousand_rows_goes_with_few_syncs() {
    const ROWS: usize = 33_333;
    let mut fixture = Fixture::new();
    let pairs = (0..ROWS).map(|n| (format!("pkg{n}"), "1 2".to_owned()));
    fixture.ingest(IngestOp::UpsertRun { run: run(), complete: false });
    fixture.ingest(IngestOp::Rows { run: run(), rows: Batch::new(pairs), complete: true, _held: None });
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

#[test]
fn a_request_and_a_delivery_are_synced_during_a_deletion() {
    let mut fixture = Fixture::with_rows(&["a", "b"]);
    let other = RunId::new("g", 1);
    let pairs = (0..5_000).map(|n| (format!("pkg{n}"), "1 2".to_owned()));
    fixture.ingest(IngestOp::UpsertRun { run: other.clone(), complete: false });
    fixture.ingest(IngestOp::Rows {
        run: other.clone(),
        rows: Batch::new(pairs),
        complete: true,
        _held: None,
    });
    fixture.ingest(IngestOp::DeleteRun { run: other });
    let mut answer = fixture.ready();
    fixture.store.begun.clear();
    let job = loop {
        fixture.turn().unwrap();
        if let Some(job) = answer.try_recv().unwrap() {
            break job.expect("a job");
        }
    };
    assert_eq!(fixture.store.begun.last(), Some(&false), "the answer is durable");
    fixture.group.add_request(StoreRequest::Delivered(job.handout));
    while fixture.group.has_delivery_notices() {
        assert!(fixture.store.begun.len() < 6, "the notice waits for two turns at most");
        fixture.turn().unwrap();
    }
    assert_eq!(fixture.store.begun.last(), Some(&false), "the delivery is durable");
}
