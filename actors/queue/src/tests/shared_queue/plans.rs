//! Plans of a session, which are made once: also when tables have grown, few rows are read for a job.

use super::*;

/// Rows that are read by one index for a job, at most: up to 11 are. With a plan that reads all rows, it is
/// 50 or more.
const ROWS_MAX: usize = 20;

/// The statistics say that tables have few rows, as after an automatic vacuum, and a transaction of somebody
/// else keeps all dead rows from then on, or also those before.
#[test]
fn few_rows_are_read_for_a_job_after_plans_for_small_tables() {
    const JOBS: usize = 400;
    const BATCH: usize = 4;
    for (known, is_held_before) in
        [0, 1, 2, 3, 5].into_iter().flat_map(|known| [(known, false), (known, true)])
    {
        let (mut one, mut observer) = shared(&[(Some("pkg*"), None, 1000)]);
        if known > 0 {
            feed_batch(&mut one, "f1", 1, &packages(known));
        }
        let _before = is_held_before.then(|| holder(&one));
        let mut jobs = exchange(&mut one, &[], known, 10);
        for table in ["log", "in_flight", "listing", "payload", "ready", "attempt", "slot"] {
            observer.run(&format!("VACUUM ANALYZE {table}"));
        }
        let _after = holder(&one);
        feed_batch(&mut one, "f2", 1, &packages(JOBS));
        for batch in 0..JOBS / BATCH {
            jobs = exchange(&mut one, &jobs, BATCH, 10);
            assert_eq!(jobs.len(), BATCH, "batch {batch}");
            for job in &jobs {
                assert!(group(&mut one, |s| s.delivered(job.handout)), "batch {batch}");
            }
        }
        exchange(&mut one, &jobs, 0, 10);
        await_statistics(&mut one, &mut observer, JOBS);
        let read = one.texts(&format!(
            "SELECT indexrelname || ' ' || idx_tup_read FROM pg_stat_user_indexes
             WHERE schemaname = '{}' AND idx_tup_read > {}",
            one.schema,
            ROWS_MAX * JOBS
        ));
        assert!(
            read.is_empty(),
            "rows for {JOBS} jobs, {known} before the plans, {is_held_before}: {read:?}"
        );
    }
}

#[test]
fn a_slot_that_is_used_again_in_its_transaction_is_not_written() {
    const JOBS: usize = 100;
    let (mut one, mut observer) = shared(&[(Some("*"), None, 3)]);
    feed_batch(&mut one, "f1", 1, &packages(JOBS));
    let mut jobs = Vec::new();
    for _ in 0..JOBS / 2 {
        jobs = exchange(&mut one, &jobs, 2, 10);
        assert_eq!((jobs.len(), observer.number("SELECT count(*) FROM slot")), (2, 1));
        for job in &jobs {
            assert!(group(&mut one, |s| s.delivered(job.handout)));
        }
    }
    exchange(&mut one, &jobs, 0, 10);
    assert_eq!(observer.number("SELECT count(*) FROM slot"), 3);
    await_statistics(&mut one, &mut observer, JOBS);
    let written = removed(&one, "slot");
    assert_eq!(observer.number(&written), 2, "the first two slots");
}

/// A transaction of somebody else that has seen the queue.
fn holder(one: &TestStore) -> Observer {
    let mut holder = Observer::of(&one.schema);
    holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM log");
    holder
}

/// Query for the number of rows that were deleted of a table.
fn removed(one: &TestStore, table: &str) -> String {
    let schema = &one.schema;
    format!("SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = '{table}' AND schemaname = '{schema}'")
}

/// Ends the session of the store, which then reports its statistics.
fn await_statistics(one: &mut TestStore, observer: &mut Observer, jobs: usize) {
    one.close();
    let ended = removed(one, "in_flight");
    wait_for("the statistics", || (observer.number(&ended) >= i64::try_from(jobs).unwrap()).then_some(()));
}
