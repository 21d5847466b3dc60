//! The queue operations; every case takes any storage.

use super::bench::*;
use orchestrator_queue::storage::{RunId, RunState, StorageError, Upsert};
use std::time::Instant;

fn row(fetcher: i64, attr: &str, payload: &str) -> QueueRow {
    (fetcher, attr.to_owned(), payload.to_owned())
}

fn completing_a_run_keeps_its_rows(s: &mut impl Bench) {
    feed(s, "f1", 100, &[("alpha", "0 1")]);
    assert_eq!(group(s, |s| s.upsert_run(&RunId::new("f1", 100), true)), Upsert::Done);
    assert_eq!(s.queue(), [row(1, "alpha", "0 1")]);
    let known = group(s, |s| s.known_runs());
    assert_eq!(known, [RunState { run: RunId::new("f1", 100), complete: true }]);
}

fn runs_of_a_fetcher_keep_a_row_each(s: &mut impl Bench) {
    feed(s, "f1", 100, &[("alpha", "0.1 1.0")]);
    feed(s, "f1", 101, &[("alpha", "0.1 1.1")]);
    assert_eq!(s.queue(), [row(1, "alpha", "0.1 1.0"), row(1, "alpha", "0.1 1.1")]);
}

fn new_rows_know_the_last_start(s: &mut impl Bench) {
    s.write_log("alpha", 103, None);
    s.write_log("charlie", 100, None);
    feed(s, "f1", 101, &[("alpha", "0 1"), ("bravo", "0 1")]);
    feed(s, "f2", 102, &[("alpha", "0 1")]);
    assert_eq!(s.last_started("alpha"), [Some(103), Some(103)]);
    assert_eq!(s.last_started("bravo"), [None]);
}

fn a_foreign_start_reaches_rows_that_are_there(s: &mut impl Bench) {
    feed(s, "f1", 100, &[("alpha", "0 1"), ("bravo", "0 1")]);
    s.write_log("alpha", 101, None);
    assert_eq!((s.last_started("alpha"), s.last_started("bravo")), (vec![Some(101)], vec![None]));
}

fn a_foreign_restart_reaches_rows_that_are_there(s: &mut impl Bench) {
    s.write_log("alpha", 100, None);
    feed(s, "f1", 101, &[("alpha", "0 1"), ("bravo", "0 1")]);
    feed(s, "f2", 102, &[("alpha", "0 1")]);
    s.write_log("alpha", 103, None);
    assert_eq!(s.last_started("alpha"), [Some(103), Some(103)]);
    assert_eq!(s.last_started("bravo"), [None]);
}

fn deleting_a_run_leaves_the_others(s: &mut impl Bench) {
    feed(s, "f1", 100, &[("alpha", "0 1"), ("charlie", "0 1")]);
    feed(s, "f2", 101, &[("alpha", "0 1"), ("bravo", "0 1")]);
    delete(s, "f1", 100);
    assert_eq!(s.queue(), [row(2, "alpha", "0 1"), row(2, "bravo", "0 1")]);
}

fn finishing_asks_nobody(s: &mut impl Bench) {
    assert!(!group(s, |s| s.finish("ghost", 0, 5)), "P07");
    feed(s, "f1", 1, &[("alpha", "0 1")]);
    assert_eq!(next_attr(s, 10).as_deref(), Some("alpha"));
    finish(s, "alpha", 11);
    assert!(group(s, |s| s.finish("alpha", i64::MIN, 12)), "P08: again, with any code");
}

fn unknown_fetchers_and_runs(s: &mut impl Bench) {
    let batch = lines(&[("alpha", "0 1"), ("bravo", "0 1")]);
    assert_eq!(group(s, |s| s.enqueue(&RunId::new("ghost", 1), &batch, 0, None)), 2);
    feed(s, "f1", 1, &[]);
    s.begin().unwrap();
    let error = s.enqueue(&RunId::new("f1", 2), &batch, 0, None).unwrap_err();
    assert!(matches!(error, StorageError::UnknownRun { started: 2, .. }), "{error}");
    s.commit().unwrap();
    assert_eq!(s.queue(), []);
}

fn a_slice_takes_what_the_deadline_allows(s: &mut impl Bench) {
    let run = RunId::new("f1", 1);
    let names: Vec<String> = (0..1_000).map(|n| format!("pkg{n}")).collect();
    let rows: Vec<_> = names.iter().map(|name| (name.as_str(), "0 1")).collect();
    let batch = lines(&rows);
    assert_eq!(group(s, |s| s.upsert_run(&run, false)), Upsert::Done);
    let reached = group(s, |s| s.enqueue(&run, &batch, 0, Some(Instant::now())));
    assert!((1..1_000).contains(&reached), "took {reached}");
    let mut reached = reached;
    while reached < batch.len() {
        reached = group(s, |s| s.enqueue(&run, &batch, reached, Some(Instant::now())));
    }
    assert_eq!(s.queue().len(), 1_000);
}

fn what_is_rolled_back_did_not_happen(s: &mut impl Bench) {
    feed(s, "f1", 1, &[("alpha", "0 1")]);
    s.begin().unwrap();
    assert!(s.dequeue(10).unwrap().is_some());
    assert_eq!(s.dequeue(10).unwrap(), None);
    assert_eq!(s.upsert_run(&RunId::new("f9", 9), true).unwrap(), Upsert::Done);
    s.rollback().unwrap();
    assert_eq!(group(s, |s| s.known_runs()).len(), 1);
    assert_eq!(next_attr(s, 10).as_deref(), Some("alpha"));
}

fn without_a_group_nothing_is_done(s: &mut impl Bench) {
    feed(s, "f1", 1, &[("alpha", "0 1")]);
    let error = s.dequeue(10).unwrap_err();
    assert!(error.to_string().contains("dequeuing"), "{error}");
    assert_eq!(next_attr(s, 10).as_deref(), Some("alpha"));
}

macro_rules! cases {
    ($($name:ident)*) => {
        mod sqlite {
            $(#[test] fn $name() { super::$name(&mut super::super::bench::Sqlite::new()); })*
        }
    };
}

cases! {
    completing_a_run_keeps_its_rows
    runs_of_a_fetcher_keep_a_row_each
    new_rows_know_the_last_start
    a_foreign_start_reaches_rows_that_are_there
    a_foreign_restart_reaches_rows_that_are_there
    deleting_a_run_leaves_the_others
    finishing_asks_nobody
    unknown_fetchers_and_runs
    a_slice_takes_what_the_deadline_allows
    what_is_rolled_back_did_not_happen
    without_a_group_nothing_is_done
}
