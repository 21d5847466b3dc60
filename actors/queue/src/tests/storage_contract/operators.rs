//! Questions and commands of operators, and checkpoints.

use std::sync::{Arc, atomic::Ordering};
use std::time::Duration;

use orchestrator_queue_rules::storage::{
    Attempt, Counts, FailedAttempts, HeldJobs, Questions as _, RunId, Storage, Waiting,
};

use orchestrator_queue_sqlite::{CheckpointMode, Checkpointer, Inspector, Options};

use crate::tests::store::*;

/// More time than any question takes on a busy machine.
const PLENTY: Duration = Duration::from_secs(60);

fn stocked() -> TestStore {
    stocked_on(Kind::Sqlite)
}

fn stocked_on(kind: Kind) -> TestStore {
    let mut s = TestStore::of(kind, Options::default());
    feed(&mut s, "f1", 1, &["alpha", "bravo", "charlie"].map(|attr| (attr, "0 1")));
    feed(&mut s, "f1", 2, &[("delta", "0 2")]);
    feed(&mut s, "f2", 1, &[("alpha", "other"), ("echo", "0 3")]);
    assert_eq!(next_attr(&mut s, 1_000).as_deref(), Some("alpha"));
    s
}

#[test]
fn peek_shows_the_next_jobs() {
    let mut s = stocked();
    let mut inspector = Inspector::open(&s.path(), Options::default(), PLENTY).unwrap();
    for now in [1_001, 1_000 + 43_200, 1_001 + 43_200] {
        let peeked = inspector.peek(None, now, 10).unwrap();
        assert_eq!(inspector.peek(None, now, 2).unwrap(), peeked[..2]);
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
fn peek_shows_a_path_of_two_fetchers_once() {
    let mut s = TestStore::new();
    feed(&mut s, "f1", 1, &["zulu", "yankee", "xray"].map(|attr| (attr, "0 1")));
    feed(&mut s, "f2", 1, &["yankee", "zulu", "whiskey"].map(|attr| (attr, "0 2")));
    let mut inspector = Inspector::open(&s.path(), Options::default(), PLENTY).unwrap();
    let peeked = inspector.peek(None, 10, 10).unwrap();
    assert_eq!(inspector.peek(None, 10, 3).unwrap(), peeked[..3]);
    let shown: Vec<_> = peeked.into_iter().map(|next| (next.attr_path, next.payload)).collect();
    let given: Vec<_> = std::iter::from_fn(|| next(&mut s, 10)).collect();
    assert_eq!(shown, given, "the other job of a path waits for the end of the first");
}

#[test]
fn peek_and_show_read_the_beginning_of_a_payload() {
    let mut s = TestStore::new();
    let long = "é".repeat(1 << 20);
    feed(&mut s, "f1", 1, &[("alpha", &long), ("bravo", "")]);
    let mut inspector = Inspector::open(&s.path(), Options::default(), PLENTY).unwrap();
    let payloads = |inspector: &mut Inspector| -> Vec<String> {
        inspector.peek(None, 10, 10).unwrap().into_iter().map(|next| next.payload).collect()
    };
    assert_eq!(payloads(&mut inspector), [long[..1_000].to_owned(), String::new()]);
    let shown = inspector.attr("alpha", 10, 10).unwrap().waiting;
    assert_eq!(shown[0].payload, long[..1_000]);
}

/// Starts, ends and fetchers of attempts.
fn outlines(attempts: &[Attempt]) -> Vec<(i64, Option<i64>, Option<&str>)> {
    attempts.iter().map(|attempt| (attempt.started, attempt.finished, attempt.fetcher.as_deref())).collect()
}

#[test]
fn show_has_the_attempts_of_a_path_after_the_clock_was_set_back() {
    let mut s = TestStore::new();
    for (run, started, finished) in [(1, 100, 101), (2, 50, 51), (3, 50, 52), (4, 70, 71)] {
        feed(&mut s, "f1", run, &[("alpha", "0 1"), ("bravo", "0 1")]);
        for _ in 0..2 {
            assert!(next(&mut s, started).is_some());
        }
        group(&mut s, |s| s.finish("alpha", 0, finished));
        group(&mut s, |s| s.finish("bravo", 0, finished));
    }
    let mut inspector = Inspector::open(&s.path(), Options::default(), PLENTY).unwrap();
    let all = [
        (70, Some(71), Some("f1")),
        (50, Some(52), Some("f1")),
        (50, Some(51), Some("f1")),
        (100, Some(101), Some("f1")),
    ];
    for limit in 0..6 {
        let attempts = inspector.attr("alpha", 200, limit).unwrap().attempts;
        assert_eq!(outlines(&attempts), all[..limit.min(4)], "{limit}");
    }
}

#[test]
fn show_has_the_attempts_before_a_hand_out_of_another_program() {
    let mut s = TestStore::new();
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    assert!(next(&mut s, 10).is_some());
    s.foreign().execute_batch("UPDATE log SET started = 20, finished = 21, exit_code = 3").unwrap();
    feed(&mut s, "f1", 2, &[("alpha", "0 1")]);
    assert!(next(&mut s, 30).is_some());
    let mut inspector = Inspector::open(&s.path(), Options::default(), PLENTY).unwrap();
    let attempts = inspector.attr("alpha", 200, 10).unwrap().attempts;
    let all = [(30, None, Some("f1")), (20, Some(21), None), (10, None, Some("f1"))];
    assert_eq!(outlines(&attempts), all);
}

#[test]
fn show_reads_only_the_attempts_of_its_path() {
    let mut s = TestStore::new();
    for (run, now) in [(1, 10), (2, 6_000)] {
        feed(&mut s, "f1", run, &[("alpha", "0 1")]);
        assert!(next(&mut s, now).is_some());
        group(&mut s, |s| s.finish("alpha", 0, now + 1));
    }
    s.foreign()
        .execute_batch(
            "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000)
             INSERT INTO orchestrator_attempt (started, handout_id, attr_path, connection)
             SELECT n + delay, n + delay, 'pkg' || n, '1' FROM n CROSS JOIN (SELECT 0 AS delay UNION ALL SELECT 9000)",
        )
        .unwrap();
    // Without any time, a question fails once a statement has taken 2,000 steps.
    let mut inspector = Inspector::open(&s.path(), Options::default(), Duration::ZERO).unwrap();
    let attempts = inspector.attr("alpha", 20_000, 10).unwrap().attempts;
    assert_eq!(outlines(&attempts), [(6_000, Some(6_001), Some("f1")), (10, Some(11), Some("f1"))]);
}

#[test]
fn a_question_ends_when_nobody_waits_for_it() {
    let s = TestStore::new();
    s.foreign()
        .execute_batch(
            "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000)
             INSERT INTO log (attr_path, started) SELECT 'pkg' || n, n FROM n",
        )
        .unwrap();
    let none = "x*".parse().unwrap();
    for is_asked in [true, false] {
        let inspector = Inspector::open(&s.path(), Options::default(), PLENTY).unwrap();
        let mut inspector = inspector.while_asked(Arc::new(move || is_asked));
        assert_eq!(inspector.in_flight(Some(&none), 10).is_ok(), is_asked);
    }
}

#[test]
fn show_of_a_long_path_has_the_fetcher_of_each_attempt() {
    let mut s = TestStore::new();
    let path = "a".repeat(60_000);
    for run in 1..=30 {
        feed(&mut s, "f1", run, &[(&path, "0 1")]);
        assert!(next(&mut s, run).is_some());
        group(&mut s, |s| s.finish(&path, 0, run));
    }
    let mut inspector = Inspector::open(&s.path(), Options::default(), PLENTY).unwrap();
    let attempts = inspector.attr(&path, 100, 1_000).unwrap().attempts;
    assert_eq!(attempts.len(), (1 << 20) / 60_002, "within a mebibyte");
    assert!(attempts.iter().all(|attempt| attempt.fetcher.is_some()), "{:?}", outlines(&attempts));
}

#[test]
fn held_jobs_are_counted_up_to_a_thousand() {
    let mut s = TestStore::new();
    feed_batch(&mut s, "f0", 1, &packages(1_200));
    group(&mut s, |s| s.mark_deleted(&RunId::new("f0", 1)));
    for (jobs, counted) in [(30, 30), (2_000, 1_000)] {
        feed_batch(&mut s, "f1", jobs, &packages(usize::try_from(jobs).unwrap()));
        feed_batch(&mut s, "f2", jobs, &packages(usize::try_from(jobs).unwrap()));
        while next(&mut s, 10).is_some() {}
        let Waiting::Held(HeldJobs { jobs: found, .. }) = s.sqlite().waiting(11).unwrap() else {
            panic!("not held")
        };
        assert_eq!(found, counted, "of {jobs}");
    }
}

#[test]
fn counts_and_runs_are_correct() {
    let mut s = stocked();
    group(&mut s, |s| s.mark_deleted(&RunId::new("f1", 2)));
    let mut inspector = Inspector::open(&s.path(), Options::default(), PLENTY).unwrap();
    let runs = inspector.runs().unwrap();
    let shown: Vec<_> = runs
        .iter()
        .map(|run| (run.state.run.fetcher.as_str(), run.state.run.started, run.deleted, run.rows))
        .collect();
    assert_eq!(shown, [("f1", 1, false, 3), ("f1", 2, true, 1), ("f2", 1, false, 2)]);
    let waiting: Vec<_> = runs.iter().map(|run| run.waiting).collect();
    assert_eq!(waiting, [2, 0, 2], "alpha of f2 waits for the end of the other one");
    let counts = inspector.counts().unwrap();
    assert_eq!(counts, Counts { rows: 6, ready: 5, held: 1, logged: 1, in_flight: 1 });
}

#[test]
fn an_answer_with_long_paths_ends_at_a_mebibyte() {
    let mut s = TestStore::new();
    let paths: Vec<String> = (0..60).map(|number| format!("{number:0>60000}")).collect();
    let rows: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "0 1")).collect();
    feed(&mut s, "f1", 1, &rows);
    feed(&mut s, "f2", 1, &rows);
    s.foreign().execute("UPDATE orchestrator_run SET added = 0", []).unwrap();
    let mut inspector = Inspector::open(&s.path(), Options::default(), PLENTY).unwrap();
    let peeked = inspector.peek(None, 100, 1_000).unwrap();
    assert_eq!(peeked.len(), (1 << 20) / 60_005, "with payloads");
    let listed = |inspector: &mut Inspector| inspector.stale(100, 1_000).unwrap().len();
    assert_eq!(listed(&mut inspector), (1 << 20) / 60_002, "in both fetchers together");
    let taken: Vec<String> = (0..30).filter_map(|_| next_attr(&mut s, 1)).collect();
    assert_eq!(taken.len(), 30);
    s.foreign().execute("UPDATE log SET finished = 2, exit_code = 7", []).unwrap();
    assert_eq!(listed(&mut inspector), (1 << 20) / 60_002, "with those handed out before");
    let failed = FailedAttempts { limit: 1_000, ..FailedAttempts::default() };
    group(&mut s, |s| taken.iter().try_for_each(|path| s.finish(path, 7, 3).map(drop)));
    assert_eq!(inspector.failed(&failed).unwrap().len(), (1 << 20) / 60_002);
}

#[test]
fn a_question_fails_at_its_deadline() {
    let mut s = TestStore::new();
    feed_batch(&mut s, "f1", 1, &packages(5_000));
    let peek = |timeout: Duration| {
        Inspector::open(&s.path(), Options::default(), timeout).unwrap().peek(None, 0, 5_000)
    };
    let error = peek(Duration::ZERO).unwrap_err();
    assert!(
        format!("{error:?}").contains("Interrupted") || format!("{error:?}").contains("interrupted"),
        "{error:?}"
    );
    assert_eq!(peek(PLENTY).unwrap().len(), 5_000);
}

#[test]
fn requeue_ends_the_hold_and_resets_the_rows() {
    for kind in Kind::ALL {
        let mut s = stocked_on(kind);
        let done = group(&mut s, |s| s.requeue("alpha", 1_005));
        assert_eq!((done.rows, done.was_in_flight), (1, true));
        let ended = "SELECT finished FROM log WHERE attr_path = 'alpha' AND exit_code IS NULL";
        assert_eq!(s.number(ended), 1_005);
        let rest: Vec<_> = (0..4).map(|_| next_attr(&mut s, 1_006).unwrap()).collect();
        assert!(!rest.contains(&"alpha".to_owned()), "it went to the back: {rest:?}");
        assert_eq!(next(&mut s, 1_006), job("alpha", "0 1"));
        let nothing = group(&mut s, |s| s.requeue("ghost", 1_007));
        assert_eq!((nothing.rows, nothing.was_in_flight), (0, false));
    }
}

#[test]
fn a_plain_copy_is_complete_after_a_truncating_checkpoint() {
    let mut s = stocked();
    let pages = s.sqlite().wal_pages();
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
    let pages = s.sqlite().wal_pages();
    let before = pages.load(Ordering::Relaxed);
    let done = s.sqlite().checkpoint_final().unwrap();
    assert_eq!(done.log_pages, done.checkpointed_pages);
    assert!(next_attr(&mut s, 1_001).is_some());
    assert!(pages.load(Ordering::Relaxed) < before, "{} pages after {before}", pages.load(Ordering::Relaxed));
}

#[test]
fn the_table_of_groups_can_be_rebuilt() {
    let mut s = stocked();
    s.foreign().execute_batch("DELETE FROM orchestrator_ready").unwrap();
    assert_eq!(next(&mut s, 1_001), None);
    s.foreign().execute_batch("DROP TRIGGER orchestrator_log_move").unwrap();
    s.reopen(Options::default());
    assert_eq!((0..9).filter(|_| next(&mut s, 1_001).is_some()).count(), 4);
}

#[test]
fn d17_failed_jobs_have_growing_numbers_and_the_last_ones_are_kept() {
    let mut s = TestStore::new();
    feed(&mut s, "f1", 1, &["alpha", "bravo"].map(|attr| (attr, "0 1")));
    let first = next_attr(&mut s, 100).unwrap();
    let second = next_attr(&mut s, 101).unwrap();
    group(&mut s, |s| s.finish(&first, 0, 110));
    // Not committed, so it did not happen.
    s.begin().unwrap();
    s.finish(&second, 9, 111).unwrap();
    s.rollback().unwrap();
    group(&mut s, |s| s.finish(&second, 3, 112));
    group(&mut s, |s| s.finish("unknown", 3, 112));
    s.crash();
    group(&mut s, |s| s.finish(&second, -4, 113));
    let mut inspector = Inspector::open(&s.path(), Options::default(), PLENTY).unwrap();
    let failures = inspector.failures(0, 10).unwrap();
    let seen: Vec<_> =
        failures.iter().map(|job| (job.attr_path.as_str(), job.finished, job.exit_code)).collect();
    assert_eq!(seen, [(second.as_str(), 112, 3), (second.as_str(), 113, -4)]);
    assert_eq!((failures[0].started, failures[0].fetcher.as_deref()), (101, Some("f1")));
    assert!(failures[0].number < failures[1].number);
    assert_eq!(inspector.failures(failures[0].number, 10).unwrap(), failures[1..]);
    assert_eq!(inspector.failures(0, 1).unwrap(), failures[..1]);
    s.begin().unwrap();
    for now in 0..10_200 {
        s.finish(&second, 1, now).unwrap();
    }
    s.commit().unwrap();
    let kept = s.number("SELECT count(*) FROM orchestrator_failure");
    assert!((10_000..10_100).contains(&kept), "{kept}");
    assert_eq!(s.number("SELECT finished FROM orchestrator_failure ORDER BY number DESC LIMIT 1"), 10_199);
}
