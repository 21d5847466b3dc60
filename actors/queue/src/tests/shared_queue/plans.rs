//! Plans of a session, which are made once: also when tables have grown, few rows are read for a job.

use super::*;

/// Rows that are read by one index for a job, at most: up to 11 are. With a plan that reads all rows, it is half the number of jobs.
const ROWS_MAX: usize = 20;

/// The statistics say that tables are empty, as after an automatic vacuum, and a transaction of somebody else keeps all dead rows.
#[test]
fn few_rows_are_read_for_a_job_after_plans_for_empty_tables() {
    const JOBS: usize = 400;
    let (mut one, mut observer) = shared(&[]);
    feed_batch(&mut one, "f1", 1, &packages(JOBS));
    for table in ["log", "in_flight"] {
        observer.run(&format!("VACUUM ANALYZE {table}"));
    }
    let mut holder = Observer::of(&one.schema);
    holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM log");
    for n in 0..JOBS {
        let job = group(&mut one, |s| s.dequeue(10, "1")).unwrap();
        assert!(group(&mut one, |s| s.delivered(job.handout)), "job {n}");
        group(&mut one, |s| s.finish(&job.attr_path, 0, 11));
    }
    await_statistics(&mut one, &mut observer, JOBS);
    let read = one.texts(&format!(
        "SELECT indexrelname || ' ' || idx_tup_read FROM pg_stat_user_indexes
         WHERE schemaname = current_schema() AND idx_tup_read > {}",
        ROWS_MAX * JOBS
    ));
    assert!(read.is_empty(), "rows for {JOBS} jobs: {read:?}");
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
    }
    exchange(&mut one, &jobs, 0, 10);
    assert_eq!(observer.number("SELECT count(*) FROM slot"), 3);
    await_statistics(&mut one, &mut observer, JOBS);
    let written =
        "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'slot' AND schemaname = current_schema()";
    assert_eq!(observer.number(written), 2, "the first two slots");
}

/// Ends the session of the store, which then reports its statistics.
fn await_statistics(one: &mut TestStore, observer: &mut Observer, jobs: usize) {
    one.close();
    let ended = "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'in_flight' AND schemaname = current_schema()";
    wait_for("the statistics", || (observer.number(ended) >= i64::try_from(jobs).unwrap()).then_some(()));
}
