//! Deleting runs: at once for who asks for jobs, in slices for the file.

use super::bench::*;
use orchestrator_queue::storage::{Deletion, RunId, Storage, Upsert};
use std::time::Duration;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("pkg{n}")).collect()
}

fn feed_many(s: &mut Sqlite, fetcher: &str, started: i64, names: &[String]) {
    let rows: Vec<_> = names.iter().map(|name| (name.as_str(), "0 1")).collect();
    feed(s, fetcher, started, &rows);
}

#[test]
fn a_marked_run_is_gone_at_once() {
    let mut s = Sqlite::new();
    feed_many(&mut s, "f1", 1, &names(300));
    assert!(group(&mut s, |s| s.mark_deleted(&RunId::new("f1", 1))));
    assert!(!group(&mut s, |s| s.mark_deleted(&RunId::new("f1", 1))), "twice");
    assert!(!group(&mut s, |s| s.mark_deleted(&RunId::new("f9", 1))), "never there");
    assert_eq!(next(&mut s, 10), None);
    assert_eq!(group(&mut s, |s| s.known_runs()), []);
    assert_eq!(group(&mut s, |s| s.enqueue(&RunId::new("f1", 1), &lines(&[("a", "b")]), 0, None)), 1);
    assert_eq!(s.queue().len(), 300, "its rows leave later");
}

#[test]
fn slices_go_on_after_a_crash_and_end_with_the_fetcher() {
    let mut s = Sqlite::new();
    feed_many(&mut s, "f1", 1, &names(300));
    feed_many(&mut s, "f2", 1, &names(3));
    group(&mut s, |s| s.mark_deleted(&RunId::new("f1", 1)));
    assert_eq!(group(&mut s, |s| s.delete_slice(Duration::ZERO)), Deletion::More);
    let left = s.queue().len();
    assert!((4..303).contains(&left), "{left} rows left after a slice");
    s.crash();
    let mut slices = 0;
    loop {
        match group(&mut s, |s| s.delete_slice(Duration::ZERO)) {
            Deletion::More => slices += 1,
            Deletion::Finished(run) => break assert_eq!(run, RunId::new("f1", 1)),
            Deletion::Idle => panic!("the mark was forgotten"),
        }
    }
    assert!(slices > 3);
    assert_eq!(group(&mut s, |s| s.delete_slice(Duration::ZERO)), Deletion::Idle);
    assert_eq!(s.queue().len(), 3);
    assert_eq!(s.number("SELECT count(*) FROM fetchers"), 1);
    assert_eq!(s.number("SELECT count(*) FROM orchestrator_group"), 3);
}

#[test]
fn a_run_that_comes_back_waits_for_its_old_rows_to_leave() {
    let mut s = Sqlite::new();
    feed_many(&mut s, "f2", 1, &names(300));
    feed_many(&mut s, "f1", 1, &names(300));
    feed_many(&mut s, "f1", 2, &names(1));
    for fetcher in ["f2", "f1"] {
        group(&mut s, |s| s.mark_deleted(&RunId::new(fetcher, 1)));
    }
    assert_eq!(
        group(&mut s, |s| s.upsert_run(&RunId::new("f1", 3), false)),
        Upsert::Done,
        "another run may come"
    );
    assert_eq!(group(&mut s, |s| s.upsert_run(&RunId::new("f1", 1), false)), Upsert::Pending);
    let first = loop {
        if let Deletion::Finished(run) = group(&mut s, |s| s.delete_slice(Duration::ZERO)) {
            break run;
        }
    };
    assert_eq!(first, RunId::new("f1", 1), "the one that is waited for goes first");
    feed(&mut s, "f1", 1, &[("fresh", "0 1")]);
    assert_eq!(
        s.number("SELECT count(*) FROM queue WHERE fetcher_run_started = 1 AND attr_path = 'fresh'"),
        1
    );
}

#[test]
fn a_fetcher_that_comes_back_is_the_youngest() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "one")]);
    feed(&mut s, "f2", 1, &[("alpha", "two")]);
    group(&mut s, |s| s.mark_deleted(&RunId::new("f1", 1)));
    assert_eq!(group(&mut s, |s| s.upsert_run(&RunId::new("f1", 2), false)), Upsert::Pending);
    while group(&mut s, |s| s.delete_slice(Duration::ZERO)) == Deletion::More {}
    feed(&mut s, "f1", 2, &[("alpha", "one again")]);
    assert_eq!(next(&mut s, 10), job("alpha", "two"));
}

#[test]
fn hand_outs_go_on_between_slices() {
    let mut s = Sqlite::new();
    let names = names(200);
    feed_many(&mut s, "f1", 1, &names);
    feed_many(&mut s, "f1", 2, &names);
    group(&mut s, |s| s.mark_deleted(&RunId::new("f1", 2)));
    let mut given = 0;
    loop {
        let slice = group(&mut s, |s| s.delete_slice(Duration::ZERO));
        given += usize::from(next(&mut s, 10).is_some());
        if slice == Deletion::Idle {
            break;
        }
    }
    while next(&mut s, 10).is_some() {
        given += 1;
    }
    assert_eq!(given, 200, "each shadowed row came back and was handed out once");
}

#[test]
fn a_group_touched_between_mark_and_slice_comes_back_right() {
    let mut s = Sqlite::new();
    feed(&mut s, "f1", 1, &[("alpha", "old")]);
    feed(&mut s, "f1", 2, &[("alpha", "new")]);
    feed(&mut s, "f2", 1, &[("alpha", "other")]);
    group(&mut s, |s| s.mark_deleted(&RunId::new("f1", 2)));
    s.write_log("alpha", 10, None);
    finish(&mut s, "alpha", 11);
    assert_eq!(next(&mut s, 12), job("alpha", "old"));
    finish(&mut s, "alpha", 13);
    while group(&mut s, |s| s.delete_slice(Duration::ZERO)) != Deletion::Idle {}
    assert_eq!(next(&mut s, 14), job("alpha", "other"));
    finish(&mut s, "alpha", 15);
    assert_eq!(next(&mut s, 16), None);
}
