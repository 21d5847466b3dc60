//! Cost of requests in steps of SQLite's virtual machine: the same in a small and in a large queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use orchestrator_queue_rules::storage::{
    Deletion, JobFilter, JobState, Limit, Limits, RunId, Storage, StorageError,
};

use orchestrator_queue_sqlite::{Options, Synchronous};

use crate::tests::store::*;

fn fresh() -> TestStore {
    TestStore::with(Options { synchronous: Synchronous::Normal, ..Options::default() })
}

/// Hands out all jobs.
fn drain(store: &mut TestStore, now: i64) {
    group(store, |s| {
        while let Some(job) = s.dequeue(now, "1")? {
            s.delivered(job.handout)?;
        }
        Ok(())
    });
}

/// Counts the steps in a transaction of its own, with loaded heads.
fn steps<T>(
    store: &mut TestStore,
    work: impl FnOnce(&mut dyn Storage) -> Result<T, StorageError>,
) -> (T, u64) {
    let steps = store.sqlite().count_steps().unwrap();
    store.begin().unwrap();
    let before = steps.load(Ordering::Relaxed);
    let done = work(store).unwrap();
    let after = steps.load(Ordering::Relaxed);
    store.commit().unwrap();
    (done, after - before)
}

/// Creates a queue whose first `blocked` groups cannot be handed out, for three different reasons,
/// with two jobs behind them.
fn blocked_queue(way: &str, blocked: usize) -> TestStore {
    let mut store = fresh();
    match way {
        "dequeued" => {
            feed_batch(&mut store, "f1", 1, &packages(blocked));
            drain(&mut store, 10);
        }
        "held" => {
            feed_batch(&mut store, "f1", 1, &packages(blocked));
            feed_batch(&mut store, "f2", 1, &packages(blocked));
            drain(&mut store, 10);
        }
        _ => {
            // Shadowed: the newest row of each was handed out, and an older run's row came later.
            feed_batch(&mut store, "f1", 2, &packages(blocked));
            drain(&mut store, 10);
            group(&mut store, |s| {
                for number in 0..blocked {
                    s.finish(&format!("pkg{number}"), 0, 11)?;
                }
                Ok(())
            });
            feed_batch(&mut store, "f1", 1, &packages(blocked));
        }
    }
    // Started later than all of them, so that they sort before these.
    store.foreign().execute_batch("INSERT INTO log VALUES ('x', 20, 21, 0), ('y', 22, 23, 0)").unwrap();
    feed(&mut store, "f1", 3, &[("x", "0 1"), ("y", "0 1")]);
    store
}

#[test]
fn blocked_groups_do_not_add_cost() {
    for way in ["dequeued", "held", "shadowed"] {
        let mut costs = Vec::new();
        for blocked in [10, 5_000] {
            let mut store = blocked_queue(way, blocked);
            let (job, dequeue) = steps(&mut store, |s| s.dequeue(30, "1"));
            assert_eq!(job.map(|job| job.attr_path).as_deref(), Some("x"), "{way}");
            let (_, finish) = steps(&mut store, |s| s.finish("x", 0, 31));
            let (job, _) = steps(&mut store, |s| s.dequeue(30, "1"));
            assert_eq!(job.map(|job| job.attr_path).as_deref(), Some("y"), "{way}");
            let (job, nothing) = steps(&mut store, |s| s.dequeue(30, "1"));
            assert_eq!(job, None, "{way}");
            costs.push([dequeue, finish, nothing]);
        }
        for (few, many) in costs[0].iter().zip(&costs[1]) {
            assert!(*many <= few * 3 / 2 + 20, "{way}: dequeue, finish, NOJOBS cost {costs:?} steps");
        }
        assert!(costs[1][0] < 1_000, "{way}: {costs:?}");
    }
}

/// A limited queue: `limited` groups of a full class, in order before one job without a limit.
fn limited_queue(limited: usize) -> TestStore {
    let limit = Limit { attr_path: Some("pkg*".to_owned()), fetcher: None, in_flight: 2 };
    let limits = Arc::new(Limits(vec![limit]));
    let mut store =
        TestStore::with(Options { synchronous: Synchronous::Normal, limits, ..Options::default() });
    feed_batch(&mut store, "f1", 1, &packages(limited));
    for _ in 0..2 {
        assert!(next_attr(&mut store, 10).is_some_and(|attr| attr.starts_with("pkg")));
    }
    store.foreign().execute_batch("INSERT INTO log VALUES ('x', 20, 21, 0)").unwrap();
    feed(&mut store, "f1", 3, &[("x", "0 1")]);
    store
}

#[test]
fn limited_groups_are_skipped_without_cost() {
    let mut costs = Vec::new();
    for limited in [10, 5_000] {
        let mut store = limited_queue(limited);
        let (job, dequeue) = steps(&mut store, |s| s.dequeue(30, "1"));
        assert_eq!(job.map(|job| job.attr_path).as_deref(), Some("x"));
        let (job, nothing) = steps(&mut store, |s| s.dequeue(30, "1"));
        assert_eq!(job, None);
        costs.push([dequeue, nothing]);
    }
    for (few, many) in costs[0].iter().zip(&costs[1]) {
        assert!(*many <= few * 3 / 2 + 20, "dequeue, NOJOBS cost {costs:?} steps");
    }
    assert!(costs[1][1] < 100, "NOJOBS reads no table: {costs:?}");
}

#[test]
fn the_cost_of_opening_does_not_depend_on_size() {
    let mut costs = Vec::new();
    for rows in [10, 5_000] {
        let mut store = fresh();
        feed_batch(&mut store, "f1", 1, &packages(rows));
        // A foreign commit makes the store load its heads again, as at its start.
        store.foreign().execute_batch("DELETE FROM log").unwrap();
        store.foreign().execute_batch("INSERT INTO log VALUES ('x', 20, 21, 0)").unwrap();
        let steps = store.sqlite().count_steps().unwrap();
        let job = group(&mut store, |s| s.dequeue(30, "1"));
        assert!(job.is_some());
        costs.push(steps.load(Ordering::Relaxed));
    }
    assert!(costs[1] <= costs[0] * 3 / 2 + 20, "{costs:?}");
}

#[test]
fn a_deletion_slice_has_bounded_cost() {
    let mut store = fresh();
    feed_batch(&mut store, "f1", 1, &packages(20_000));
    group(&mut store, |s| s.mark_deleted(&RunId::new("f1", 1)));
    let mut slices = 0;
    loop {
        let (slice, steps) = steps(&mut store, |s| s.delete_slice(&|| false));
        assert!(steps < 20_000, "a slice of {steps} steps");
        slices += 1;
        if slice != Deletion::More {
            break;
        }
    }
    assert!(slices > 50);
}

/// One statement for a range of paths takes 45 steps a row, but writes more pages, see the next test.
#[test]
fn a_deletion_costs_few_steps_a_row() {
    const ROWS: usize = 10_000;
    let mut store = fresh();
    feed_batch(&mut store, "f1", 1, &packages(ROWS));
    // Half of the paths have hand-outs of their own times, some of them in flight.
    store
        .foreign()
        .execute_batch(
            "INSERT INTO log SELECT attr_path, rowid, iif(rowid % 3, rowid + 1, NULL), 0 FROM queue WHERE rowid % 2",
        )
        .unwrap();
    feed_batch(&mut store, "f1", 2, &packages(ROWS));
    feed(&mut store, "f2", 1, &[("other", "0 1")]);
    group(&mut store, |s| s.mark_deleted(&RunId::new("f1", 2)));
    while group(&mut store, |s| s.delete_slice(&|| false)) == Deletion::More {}
    // A group of the older run is available again for each row.
    assert_eq!(store.number("SELECT count(*) FROM orchestrator_ready"), ROWS as i64 + 1);
    assert_eq!(
        store.number("SELECT count(*) FROM orchestrator_ready WHERE run_started = 1"),
        ROWS as i64 + 1
    );
    group(&mut store, |s| s.mark_deleted(&RunId::new("f1", 1)));
    let mut total = 0;
    while let (Deletion::More, steps) = steps(&mut store, |s| s.delete_slice(&|| false)) {
        total += steps;
    }
    assert_eq!(store.number("SELECT count(*) FROM orchestrator_ready"), 1);
    assert_eq!(store.number("SELECT count(*) FROM queue"), 1);
    assert!(total < 65 * ROWS as u64, "{} steps a row", total as f64 / ROWS as f64);
}

/// Transactions in the order of paths write most pages of the order index each: 13,000 pages in all.
#[test]
fn a_deletion_writes_few_pages() {
    let mut store = fresh();
    feed_batch(&mut store, "f1", 1, &packages(33_333));
    feed_batch(&mut store, "f2", 1, &packages(66_667));
    group(&mut store, |s| s.mark_deleted(&RunId::new("f1", 1)));
    let pages = store.sqlite().wal_pages();
    let before = pages.load(Ordering::Relaxed);
    while group(&mut store, |s| (0..4).map(|_| s.delete_slice(&|| false)).last().unwrap()) == Deletion::More {
    }
    let written = pages.load(Ordering::Relaxed) - before;
    assert!(written < 8_000, "{written} pages");
}

#[test]
fn a_slice_of_requeued_jobs_has_bounded_cost() {
    let mut costs = Vec::new();
    for jobs in [100, 5_000] {
        let mut store = fresh();
        feed_batch(&mut store, "f1", 1, &packages(jobs));
        drain(&mut store, 10);
        let filter =
            JobFilter { state: JobState::InFlight, pattern: None, exit_code: None, since: None, until: None };
        let (slice, steps) = steps(&mut store, |s| s.requeue_slice(&filter, "", Duration::ZERO, 20));
        assert_eq!(slice.jobs, 1);
        costs.push(steps);
    }
    assert!(costs[1] <= costs[0] * 3 / 2 + 20 && costs[1] < 2_000, "{costs:?}");
}
