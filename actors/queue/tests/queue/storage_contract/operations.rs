//! The queue operations; every case takes any storage.

use super::bench::*;
use orchestrator_queue::storage::{RunId, RunState, StorageError, Upsert};
use std::collections::BTreeSet;
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

fn a_long_exchange(s: &mut impl Bench) {
    feed(s, "f1", 100, &[("alpha", "0 1"), ("bravo", "0 1")]);
    feed(s, "f2", 101, &[("alpha", "0 1"), ("charlie", "0 1")]);
    let first: BTreeSet<_> = (102..105).map(|now| next_attr(s, now)).collect();
    assert_eq!(first, ["alpha", "bravo", "charlie"].map(|attr| Some(attr.to_owned())).into());
    assert_eq!(next(s, 105), None, "alpha is in flight");
    finish(s, "alpha", 105);
    assert_eq!(next(s, 105), job("alpha", "0 1"));
    assert_eq!(next(s, 106), None);
    delete(s, "f2", 101);
    feed(s, "f2", 106, &[("alpha", "1.2.3 1.2.5"), ("bravo", "0.25 0.27")]);
    feed(s, "f1", 100, &[("delta", "0 1")]);
    assert_eq!(next(s, 107), job("delta", "0 1"));
    assert_eq!(next(s, 108), None);
    for attr in ["bravo", "charlie", "delta"] {
        finish(s, attr, 108);
    }
    assert_eq!(next(s, 108), job("bravo", "0.25 0.27"));
    finish(s, "alpha", 109);
    assert_eq!(next(s, 109), job("alpha", "1.2.3 1.2.5"));
    assert_eq!(next(s, 110), None);
    assert_eq!(group(s, |s| s.upsert_run(&RunId::new("f2", 106), true)), Upsert::Done);
    feed(s, "f2", 110, &[("alpha", "0.1 0.2"), ("bravo", "0.1 0.2"), ("charlie", "0.1 0.2")]);
    assert_eq!(next(s, 111), job("charlie", "0.1 0.2"));
    assert_eq!(next(s, 112), None);
}

fn the_second_fetcher_waits_for_the_hold(s: &mut impl Bench) {
    feed(s, "f1", 10_000, &[("alpha", "0 1")]);
    feed(s, "f2", 10_000, &[("alpha", "1.0 1.1")]);
    let first = next(s, 10_000).unwrap();
    assert_eq!(next(s, 10_000), None);
    let second = next(s, 60_000).unwrap();
    assert_eq!(BTreeSet::from([first.1, second.1]), ["0 1".to_owned(), "1.0 1.1".to_owned()].into());
}

fn the_oldest_start_comes_first(s: &mut impl Bench) {
    for (attr, started, finished) in [("alpha", 103, 105), ("bravo", 101, 106), ("charlie", 102, 107)] {
        s.write_log(attr, started, Some(finished));
    }
    let all = ["alpha", "bravo", "charlie", "delta"].map(|attr| (attr, "0.1 0.2"));
    feed(s, "f1", 110, &all);
    for (now, attr) in [(111, "delta"), (112, "bravo")] {
        assert_eq!(next(s, now), job(attr, "0.1 0.2"));
        finish(s, attr, now);
    }
    feed(s, "f1", 113, &["alpha", "bravo", "delta"].map(|attr| (attr, "0.1 0.3")));
    let expected = [("charlie", "0.1 0.2"), ("alpha", "0.1 0.3"), ("delta", "0.1 0.3"), ("bravo", "0.1 0.3")];
    for (now, (attr, payload)) in (114..).zip(expected) {
        assert_eq!(next(s, now), job(attr, payload), "at {now}");
        finish(s, attr, now);
    }
    assert_eq!(next(s, 118), None);
}

fn fresh_jobs_come_by_jitter_as_a_signed_number(s: &mut impl Bench) {
    // Jitters: alpha -1555884244, echo -669077045, delta -122962845, charlie 161380287, bravo 515152637.
    feed(s, "f1", 1, &["alpha", "bravo", "charlie", "delta", "echo"].map(|attr| (attr, "0 1")));
    let order: Vec<_> = (0..5).map(|_| next_attr(s, 7).unwrap()).collect();
    assert_eq!(order, ["alpha", "echo", "delta", "charlie", "bravo"]);
}

fn a_hold_lasts_until_after_its_last_second(s: &mut impl Bench) {
    feed(s, "f1", 1, &[("alpha", "0 1")]);
    assert_eq!(next_attr(s, 1_000).as_deref(), Some("alpha"));
    feed(s, "f1", 2, &[("alpha", "0 2")]);
    assert_eq!(next(s, 1_000 + 43_200), None, "C13: at exactly 12 hours it is held");
    assert_eq!(next(s, 1_001 + 43_200), job("alpha", "0 2"), "C14: a second later it is not");
}

fn an_older_run_feeds_what_the_newer_one_lacks(s: &mut impl Bench) {
    feed(s, "f1", 100, &[("alpha", "old"), ("bravo", "old")]);
    feed(s, "f1", 101, &[("alpha", "new")]);
    let both: BTreeSet<_> = [next(s, 200), next(s, 200)].into();
    assert_eq!(both, [job("alpha", "new"), job("bravo", "old")].into(), "C15");
}

fn a_late_row_of_an_older_run_stays_in_the_shadow(s: &mut impl Bench) {
    feed(s, "f1", 100, &[("bravo", "0 1")]);
    feed(s, "f1", 101, &[("alpha", "new")]);
    assert_eq!(next_attr(s, 200).as_deref(), Some("alpha"));
    finish(s, "alpha", 201);
    feed(s, "f1", 100, &[("alpha", "late")]);
    assert_eq!(next_attr(s, 202).as_deref(), Some("bravo"));
    assert_eq!(next(s, 203), None, "C16: shadowed");
    delete(s, "f1", 101);
    assert_eq!(next(s, 204), job("alpha", "late"), "C16: back when the newer run is gone");
}

fn a_hand_out_uses_up_every_run(s: &mut impl Bench) {
    feed(s, "f1", 100, &[("alpha", "old")]);
    feed(s, "f1", 101, &[("alpha", "new")]);
    assert_eq!(next(s, 200), job("alpha", "new"));
    finish(s, "alpha", 201);
    delete(s, "f1", 101);
    assert_eq!(next(s, 202), None, "C16: the older row went with it");
}

fn a_repeated_line_replaces_the_payload_only(s: &mut impl Bench) {
    feed(s, "f1", 1, &[("alpha", "0 1"), ("bravo", "0 1"), ("alpha", "0 2")]);
    assert_eq!(s.queue(), [row(1, "alpha", "0 2"), row(1, "bravo", "0 1")], "C17");
    assert_eq!(next(s, 10), job("alpha", "0 2"));
    finish(s, "alpha", 11);
    feed(s, "f1", 1, &[("alpha", "0 3")]);
    assert_eq!(next_attr(s, 12).as_deref(), Some("bravo"));
    assert_eq!(next(s, 13), None, "C17, C09: the mark stays");
    assert_eq!(s.queue(), [row(1, "alpha", "0 3"), row(1, "bravo", "0 1")]);
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
    a_long_exchange
    the_second_fetcher_waits_for_the_hold
    the_oldest_start_comes_first
    fresh_jobs_come_by_jitter_as_a_signed_number
    a_hold_lasts_until_after_its_last_second
    an_older_run_feeds_what_the_newer_one_lacks
    a_late_row_of_an_older_run_stays_in_the_shadow
    a_hand_out_uses_up_every_run
    a_repeated_line_replaces_the_payload_only
    finishing_asks_nobody
    unknown_fetchers_and_runs
    a_slice_takes_what_the_deadline_allows
    what_is_rolled_back_did_not_happen
    without_a_group_nothing_is_done
}
