//! Bytes of payloads that are not sent (CONTRACT QR16).

use super::*;
use orchestrator_queue_rules::storage::UNSENT_BYTES_MAX;

#[test]
fn a_worker_whose_job_has_no_room_waits_until_others_are_sent() {
    let mut fixture = Fixture::with_rows(&[]);
    let half = (UNSENT_BYTES_MAX / 2 + 1) as usize;
    let lines = ["a", "b"].map(|attr| (attr.to_owned(), "x".repeat(half)));
    fixture.ingest(IngestOp::Rows { run: run(), rows: Batch::after(0, lines), complete: false, _held: None });
    let (mut one, mut two) = (fixture.ready(), fixture.ready());
    fixture.turn().unwrap();
    let first = one.try_recv().unwrap().expect("an answer").expect("a job");
    fixture.group.make_room(fixture.metrics.unsent_bytes());
    assert!(!fixture.group.has_requests() && matches!(two.try_recv(), Ok(None)));
    drop(first);
    fixture.group.make_room(fixture.metrics.unsent_bytes());
    fixture.turn().unwrap();
    assert_eq!(two.try_recv().unwrap().expect("an answer").expect("a job").job.attr_path, "b");
    assert_eq!(fixture.metrics.unsent_bytes(), 0);
}
