//! Questions and commands of operators, and checkpoints.

use crate::store::*;
use orchestrator_queue::edge::sqlite::{CheckpointMode, Checkpointer, Counts, Inspector, Options};
use orchestrator_queue::storage::{FailedAttempts, RunId, Storage};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// More time than any question takes on a busy machine.
const PLENTY: Duration = Duration::from_secs(60);

fn stocked() -> TestStore {
    let mut s = TestStore::new();
    feed(&mut s, "f1", 1, &["alpha", "bravo", "charlie"].map(|attr| (attr, "0 1")));
    feed(&mut s, "f1", 2, &[("delta", "0 2")]);
    feed(&mut s, "f2", 1, &[("alpha", "other"), ("echo", "0 3")]);
    assert_eq!(next_attr(&mut s, 1_000).as_deref(), Some("alpha"));
    s
}

#[test]
fn peek_shows_the_next_jobs() {
    let mut s = stocked();
    let mut inspector = Inspector::open(&s.path(), Options::default()).unwrap();
    for now in [1_001, 1_000 + 43_200, 1_001 + 43_200] {
        let peeked = inspector.peek(now, 10, PLENTY).unwrap();
        assert_eq!(inspector.peek(now, 2, PLENTY).unwrap(), peeked[..2]);
        let shown: Vec<_> = peeked.into_iter().map(|next| (next.attr_path, next.payload)).collect();
        let mut given = Vec::new();
        s.begin().unwrap();
        while let Some(job) = s.dequeue(now, "1").unwrap() {
            given.push((job.attr_path, job.payload));
        }
        s.rollback().unwrap();
        assert_eq!(shown, given, "at {now}");
    }
}

#[test]
fn counts_and_runs_are_correct() {
    let mut s = stocked();
    group(&mut s, |s| s.mark_deleted(&RunId::new("f1", 2)));
    let mut inspector = Inspector::open(&s.path(), Options::default()).unwrap();
    let runs = inspector.runs(PLENTY).unwrap();
    let shown: Vec<_> = runs
        .iter()
        .map(|run| (run.state.run.fetcher.as_str(), run.state.run.started, run.deleted, run.rows))
        .collect();
    assert_eq!(shown, [("f1", 1, false, 3), ("f1", 2, true, 1), ("f2", 1, false, 2)]);
    let counts = inspector.counts(PLENTY).unwrap();
    assert_eq!(counts, Counts { rows: 6, ready: 5, held: 1, logged: 1, in_flight: 1 });
}

#[test]
fn an_answer_with_long_paths_ends_at_a_mebibyte() {
    let mut s = TestStore::new();
    let paths: Vec<String> = (0..60).map(|number| format!("{number:0>60000}")).collect();
    let rows: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "0 1")).collect();
    feed(&mut s, "f1", 1, &rows);
    feed(&mut s, "f2", 1, &rows);
    s.foreign.execute("UPDATE orchestrator_run SET added = 0", []).unwrap();
    let mut inspector = Inspector::open(&s.path(), Options::default()).unwrap();
    let listed = |inspector: &mut Inspector| inspector.stale(100, 1_000, PLENTY).unwrap().len();
    assert_eq!(listed(&mut inspector), (1 << 20) / 60_002, "in both fetchers together");
    let taken: Vec<String> = (0..30).filter_map(|_| next_attr(&mut s, 1)).collect();
    assert_eq!(taken.len(), 30);
    s.foreign.execute("UPDATE log SET finished = 2, exit_code = 7", []).unwrap();
    assert_eq!(listed(&mut inspector), (1 << 20) / 60_002, "with those handed out before");
    let failed = FailedAttempts { exit_code: None, since: None, limit: 1_000 };
    group(&mut s, |s| taken.iter().try_for_each(|path| s.finish(path, 7, 3).map(drop)));
    assert_eq!(inspector.failed(failed, PLENTY).unwrap().len(), (1 << 20) / 60_002);
}

#[test]
fn a_question_fails_at_its_deadline() {
    let mut s = TestStore::new();
    feed_batch(&mut s, "f1", 1, &packages(5_000));
    let mut inspector = Inspector::open(&s.path(), Options::default()).unwrap();
    let error = inspector.peek(0, 5_000, Duration::ZERO).unwrap_err();
    assert!(
        format!("{error:?}").contains("Interrupted") || format!("{error:?}").contains("interrupted"),
        "{error:?}"
    );
    assert_eq!(inspector.peek(0, 5_000, PLENTY).unwrap().len(), 5_000);
}

#[test]
fn requeue_ends_the_hold_and_resets_the_rows() {
    let mut s = stocked();
    let done = group(&mut s, |s| s.requeue("alpha", 1_005));
    assert_eq!((done.rows, done.was_in_flight), (1, true));
    assert_eq!(s.number("SELECT finished FROM log WHERE attr_path = 'alpha' AND exit_code IS NULL"), 1_005);
    let rest: Vec<_> = (0..4).map(|_| next_attr(&mut s, 1_006).unwrap()).collect();
    assert!(!rest.contains(&"alpha".to_owned()), "it went to the back: {rest:?}");
    assert_eq!(next(&mut s, 1_006), job("alpha", "0 1"));
    let nothing = group(&mut s, |s| s.requeue("ghost", 1_007));
    assert_eq!((nothing.rows, nothing.was_in_flight), (0, false));
}

#[test]
fn a_plain_copy_is_complete_after_a_truncating_checkpoint() {
    let mut s = stocked();
    let pages = s.wal_pages();
    feed(&mut s, "f3", 1, &[("foxtrot", "0 1")]);
    assert!(pages.load(Ordering::Relaxed) > 0);
    let checkpointer = Checkpointer::open(&s.path()).unwrap();
    let passive = checkpointer.checkpoint(CheckpointMode::Passive).unwrap();
    assert!(
        !passive.busy && passive.log_pages > 0 && passive.log_pages == passive.checkpointed_pages,
        "{passive:?}"
    );
    let done = checkpointer.checkpoint(CheckpointMode::Truncate).unwrap();
    assert!(!done.busy, "{done:?}");
    let copy = s.dir.path().join("copy.db");
    std::fs::copy(s.path(), &copy).unwrap();
    let copied = rusqlite::Connection::open(copy).unwrap();
    let rows: i64 = copied.query_row("SELECT count(*) FROM queue", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 7);
}

#[test]
fn a_checkpoint_during_a_transaction_is_busy() {
    let mut s = stocked();
    let checkpointer = Checkpointer::open(&s.path()).unwrap();
    s.begin().unwrap();
    assert!(s.dequeue(1_001, "1").unwrap().is_some());
    assert!(checkpointer.checkpoint(CheckpointMode::Truncate).unwrap().busy);
    s.commit().unwrap();
    assert!(!checkpointer.checkpoint(CheckpointMode::Truncate).unwrap().busy);
}

#[test]
fn the_log_is_reused_after_the_final_checkpoint() {
    let mut s = stocked();
    let pages = s.wal_pages();
    let before = pages.load(Ordering::Relaxed);
    let done = s.checkpoint_final().unwrap();
    assert_eq!(done.log_pages, done.checkpointed_pages);
    assert!(next_attr(&mut s, 1_001).is_some());
    assert!(pages.load(Ordering::Relaxed) < before, "{} pages after {before}", pages.load(Ordering::Relaxed));
}

#[test]
fn the_table_of_groups_can_be_rebuilt() {
    let mut s = stocked();
    s.foreign.execute_batch("DELETE FROM orchestrator_group").unwrap();
    assert_eq!(next(&mut s, 1_001), None);
    s.begin().unwrap();
    s.rebuild_groups().unwrap();
    s.commit().unwrap();
    assert_eq!((0..9).filter(|_| next(&mut s, 1_001).is_some()).count(), 4);
}
