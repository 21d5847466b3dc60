//! Hand-outs: delivered, undone, lost in a crash, released after their hold.

use super::bench::*;
use orchestrator_queue::edge::sqlite::Options;
use orchestrator_queue::storage::{HandoutId, Storage};

/// Everything another process can see.
fn tables(s: &Sqlite) -> Vec<String> {
    let sql = "SELECT format('queue %d %s %s %d %s', fetcher_run_started, attr_path, payload, is_dequeued,
                   ifnull(last_started, '-')) FROM queue
               UNION ALL SELECT format('log %s %d %s %s', attr_path, started, ifnull(finished, '-'),
                   ifnull(exit_code, '-')) FROM log
               UNION ALL SELECT format('group %d %d %d %d %d %s', fetcher_id, run_started, held, started_key, jitter_key,
                   attr_path) FROM orchestrator_group ORDER BY 1";
    let mut statement = s.foreign.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Two runs of one fetcher and one of another with `alpha`, which was done once; an older row is used up already.
fn with_history() -> Sqlite {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "used up")]);
    assert_eq!(next(&mut s, 10), job("alpha", "used up"));
    assert!(group(&mut s, |s| s.finish("alpha", 3, 11)));
    feed(&mut s, "f1", 2, &[("alpha", "two")]);
    feed(&mut s, "f1", 3, &[("alpha", "three")]);
    feed(&mut s, "f2", 2, &[("alpha", "other")]);
    group(&mut s, |s| s.undo_undelivered());
    s
}

#[test]
fn undoing_restores_exactly_what_was() {
    let mut s = with_history();
    let before = tables(&s);
    let given = take(&mut s, 20).unwrap();
    assert_ne!(tables(&s), before);
    assert!(group(&mut s, |s| s.undo(given.handout)));
    assert_eq!(tables(&s), before);
    assert_eq!(next(&mut s, 21), job("alpha", "three"));
}

#[test]
fn undoing_a_first_start_removes_its_log_row() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    let before = tables(&s);
    let given = take(&mut s, 20).unwrap();
    assert!(group(&mut s, |s| s.undo(given.handout)));
    assert_eq!(tables(&s), before);
}

#[test]
fn undoing_reaches_rows_that_came_meanwhile() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    let given = take(&mut s, 20).unwrap();
    feed(&mut s, "f2", 1, &[("alpha", "0 2")]);
    assert!(group(&mut s, |s| s.undo(given.handout)));
    assert_eq!(s.last_started("alpha"), [None, None]);
    assert_eq!(next(&mut s, 21), job("alpha", "0 1"));
}

#[test]
fn what_was_done_or_started_again_is_not_undone() {
    let mut s = with_history();
    let first = take(&mut s, 20).unwrap();
    finish(&mut s, "alpha", 21);
    assert!(!group(&mut s, |s| s.undo(first.handout)), "done");
    let second = take(&mut s, 22).unwrap();
    let after = tables(&s);
    s.write_log("alpha", 23, None);
    let changed = tables(&s);
    assert_ne!(after, changed);
    assert!(!group(&mut s, |s| s.undo(second.handout)), "started again by somebody else");
    assert_eq!(tables(&s), changed);
}

#[test]
fn a_second_start_within_the_second_is_not_undone_by_the_first() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "one")]);
    feed(&mut s, "f2", 1, &[("alpha", "two")]);
    let first = take(&mut s, 20).unwrap();
    finish(&mut s, "alpha", 20);
    let second = take(&mut s, 20).unwrap();
    assert_eq!(second.payload, "two");
    assert!(!group(&mut s, |s| s.undo(first.handout)));
    assert!(group(&mut s, |s| s.undo(second.handout)));
}

#[test]
fn a_done_after_an_undo_is_a_plain_finish() {
    let mut s = with_history();
    let given = take(&mut s, 20).unwrap();
    assert!(group(&mut s, |s| s.undo(given.handout)));
    assert!(group(&mut s, |s| s.finish("alpha", 7, 25)));
    assert_eq!(s.number("SELECT finished * 100 + exit_code FROM log WHERE started = 10"), 2_507);
    assert_eq!(next(&mut s, 26), job("alpha", "three"));
}

#[test]
fn what_was_delivered_stays() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    let given = take(&mut s, 20).unwrap();
    assert!(group(&mut s, |s| s.delivered(given.handout)));
    assert!(!group(&mut s, |s| s.delivered(given.handout)));
    assert!(!group(&mut s, |s| s.undo(given.handout)));
    assert_eq!(s.crash(), 0);
    assert_eq!(next(&mut s, 21), None);
}

#[test]
fn a_crash_gives_back_what_was_not_delivered() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "0 1"), ("bravo", "0 1"), ("charlie", "0 1"), ("delta", "0 1")]);
    let delivered = take(&mut s, 20).unwrap();
    group(&mut s, |s| s.delivered(delivered.handout));
    let done = take(&mut s, 20).unwrap();
    finish(&mut s, &done.attr_path, 21);
    let lost = take(&mut s, 20).unwrap();
    s.begin().unwrap();
    assert!(s.dequeue(22).unwrap().is_some(), "and this one was not even committed");
    assert_eq!(s.crash(), 1);
    assert_eq!(next_attr(&mut s, 23), Some(lost.attr_path));
    assert!(next_attr(&mut s, 23).is_some());
    assert_eq!(next(&mut s, 23), None);
}

#[test]
fn names_of_hand_outs_are_not_used_again() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "0 1")]);
    let old = take(&mut s, 20).unwrap();
    assert_eq!(s.crash(), 1);
    let new = take(&mut s, 20).unwrap();
    assert!(new.handout > old.handout);
    assert!(!group(&mut s, |s| s.delivered(old.handout)));
    assert!(!group(&mut s, |s| s.undo(HandoutId(0))));
    assert!(group(&mut s, |s| s.undo(new.handout)));
}

fn lease(on: bool) -> Sqlite {
    let mut s = Sqlite::with(Options { redeliver_after_lease: on, hold_secs: 100, ..Options::default() });
    feed(&mut s, "f1", 1, &[("alpha", "0 1"), ("bravo", "0 1")]);
    for _ in 0..2 {
        let given = take(&mut s, 1_000).unwrap();
        group(&mut s, |s| s.delivered(given.handout));
    }
    finish(&mut s, "bravo", 1_050);
    s
}

#[test]
fn a_lease_that_ran_out_is_given_again() {
    let mut s = lease(true);
    assert_eq!(next(&mut s, 1_100), None, "R28: at exactly the hold it is not over");
    assert_eq!(next(&mut s, 1_101), job("alpha", "0 1"));
    assert_eq!(next(&mut s, 1_101), None, "bravo was done");
    assert_eq!(next(&mut s, 1_300), None, "this one was not noted as delivered: no reply, no lease");
}

#[test]
fn a_lease_outlives_a_crash() {
    let mut s = lease(true);
    assert_eq!(s.crash(), 0);
    assert_eq!(next(&mut s, 1_101), job("alpha", "0 1"));
}

#[test]
fn without_leases_a_lost_job_waits_for_a_newer_run() {
    let mut s = lease(false);
    assert_eq!(next(&mut s, 9_000), None, "R28: as the original does");
    feed(&mut s, "f1", 2, &[("alpha", "0 2")]);
    assert_eq!(next(&mut s, 9_000), job("alpha", "0 2"));
    assert_eq!(s.number("SELECT count(*) FROM orchestrator_handout WHERE delivered = 1"), 0);
}
