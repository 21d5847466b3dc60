//! Limits of jobs in flight: changes of the limits, other writers, holds and bumps.

use std::sync::Arc;
use std::time::Duration;

use orchestrator_queue_rules::storage::{Bumped, Limit, Limits, Questions as _};

use orchestrator_queue_sqlite::{Inspector, Options};

use crate::tests::store::*;

const PLENTY: Duration = Duration::from_secs(60);

fn options(patterns: &[(&str, u32)]) -> Options {
    let limit = |(pattern, in_flight): &(&str, u32)| Limit {
        attr_path: Some((*pattern).to_owned()),
        fetcher: None,
        in_flight: *in_flight,
    };
    Options { limits: Arc::new(Limits(patterns.iter().map(limit).collect())), ..Options::default() }
}

fn taken(s: &mut TestStore, now: i64) -> Vec<String> {
    let mut taken: Vec<String> = std::iter::from_fn(|| next_attr(s, now)).collect();
    taken.sort();
    taken
}

#[test]
fn no_more_jobs_than_the_limit_are_in_flight() {
    for mut s in TestStore::each(options(&[("py*", 2)])) {
        feed(&mut s, "f1", 1, &["py1", "py2", "py3", "py4", "other"].map(|attr| (attr, "0 1")));
        let first = taken(&mut s, 10);
        assert_eq!((first.len(), first[0].as_str()), (3, "other"));
        group(&mut s, |s| s.finish(&first[1], 0, 11));
        assert_eq!(taken(&mut s, 12).len(), 1, "one job was done, one more is handed out");
        s.crash();
        // Hand-outs whose delivery was not recorded are undone by the start after a crash.
        assert_eq!(taken(&mut s, 13).len(), 3, "the two in flight and the one without a limit: {first:?}");
    }
}

#[test]
fn a_job_whose_hold_is_over_does_not_count() {
    for mut s in TestStore::each(options(&[("py*", 1)])) {
        feed(&mut s, "f1", 1, &[("py1", "0 1"), ("py2", "0 1")]);
        assert_eq!(taken(&mut s, 10).len(), 1);
        assert_eq!(taken(&mut s, 10 + 43_200), [""; 0]);
        assert_eq!(taken(&mut s, 11 + 43_200).len(), 1);
    }
}

#[test]
fn changed_limits_count_jobs_in_flight_after_a_restart() {
    for mut s in TestStore::each(Options::default()) {
        feed(&mut s, "f1", 1, &["py1", "py2", "py3", "other"].map(|attr| (attr, "0 1")));
        let jobs: Vec<_> = (0..2).filter_map(|_| take(&mut s, 10)).collect();
        group(&mut s, |s| jobs.iter().try_for_each(|job| s.delivered(job.handout).map(drop)));
        let waiting: Vec<&str> = ["py1", "py2", "py3", "other"]
            .into_iter()
            .filter(|attr| !jobs.iter().any(|job| job.attr_path == *attr))
            .collect();
        s.reopen(options(&[("py*", 1)]));
        // At least one of the two jobs in flight counts against the limit.
        let expected: Vec<&str> = waiting.iter().copied().filter(|attr| !attr.starts_with("py")).collect();
        assert_eq!(taken(&mut s, 11), expected);
        s.reopen(Options::default());
        assert_eq!(taken(&mut s, 12).len(), waiting.len() - expected.len(), "no limit any more");
    }
}

#[test]
fn a_limit_that_was_lowered_is_kept_whichever_job_ends_first() {
    for last in [false, true] {
        for mut s in TestStore::each(Options::default()) {
            feed(&mut s, "f1", 1, &["py1", "py2", "py3", "py4", "py5"].map(|attr| (attr, "0 1")));
            let mut jobs: Vec<_> = (10..13).filter_map(|now| take(&mut s, now)).collect();
            group(&mut s, |s| jobs.iter().try_for_each(|job| s.delivered(job.handout).map(drop)));
            s.reopen(options(&[("py*", 2)]));
            while jobs.len() > 2 {
                let ended = jobs.remove(if last { jobs.len() - 1 } else { 0 });
                group(&mut s, |s| s.finish(&ended.attr_path, 0, 20));
                assert_eq!(next(&mut s, 20), None, "{} are in flight", jobs.len());
            }
            group(&mut s, |s| s.finish(&jobs[0].attr_path, 0, 21));
            assert_eq!(taken(&mut s, 21).len(), 1);
        }
    }
}

#[test]
fn a_job_that_is_delivered_after_its_hold_frees_one_place() {
    let options = Options { redeliver_after_lease: true, ..options(&[("py*", 1)]) };
    for mut s in TestStore::each(options) {
        feed(&mut s, "f1", 1, &["py1", "py2", "py3"].map(|attr| (attr, "0 1")));
        let late = take(&mut s, 10).unwrap();
        assert!(take(&mut s, 11 + 43_200).is_some(), "the hold is over");
        group(&mut s, |s| s.delivered(late.handout).map(drop));
        assert_eq!(next(&mut s, 12 + 43_200), None, "one is in flight");
    }
}

#[test]
fn rows_of_other_programs_are_limited() {
    let mut s = TestStore::with(options(&[("py*", 1)]));
    feed(&mut s, "f1", 1, &[("other", "0 1")]);
    for number in 0..20 {
        s.foreign()
            .execute(
                "INSERT INTO queue VALUES (1, 1, ?1, '0 1', 0, NULL, ?2)",
                (format!("py{number}"), number),
            )
            .unwrap();
    }
    assert_eq!(taken(&mut s, 10).len(), 2, "one of each class");
    assert_eq!(s.number("SELECT count(*) FROM orchestrator_ready WHERE class = 1 AND NOT is_held"), 19);
}

#[test]
fn a_bumped_job_waits_for_its_limit() {
    for mut s in TestStore::each(options(&[("py*", 1), ("never", 0)])) {
        feed(&mut s, "f1", 1, &["py1", "py2", "py3", "never", "other"].map(|attr| (attr, "0 1")));
        assert_eq!(group(&mut s, |s| s.bump("py3")), Bumped::Done);
        assert_eq!(next_attr(&mut s, 11).as_deref(), Some("py3"));
        assert_eq!(group(&mut s, |s| s.bump("py2")), Bumped::Done);
        assert_eq!(next_attr(&mut s, 11).as_deref(), Some("other"));
        assert_eq!(next(&mut s, 11), None);
        group(&mut s, |s| s.finish("py3", 0, 12));
        assert_eq!(next_attr(&mut s, 12).as_deref(), Some("py2"), "the bump is kept while its class is full");
    }
}

#[test]
fn a_bumped_job_waits_for_its_limit_and_peek_tells_what_is_handed_out() {
    let mut s = TestStore::with(options(&[("py*", 1), ("never", 0)]));
    feed(&mut s, "f1", 1, &["py1", "py2", "py3", "never", "other"].map(|attr| (attr, "0 1")));
    assert_eq!(group(&mut s, |s| s.bump("py3")), Bumped::Done);
    let mut inspector = Inspector::open(&s.path(), options(&[("py*", 1), ("never", 0)]), PLENTY).unwrap();
    let peek = |inspector: &mut Inspector| -> Vec<String> {
        inspector.peek(None, 11, 10).unwrap().into_iter().map(|next| next.attr_path).collect()
    };
    assert_eq!(peek(&mut inspector), ["py3", "other"]);
    assert_eq!(next_attr(&mut s, 11).as_deref(), Some("py3"));
    assert_eq!(group(&mut s, |s| s.bump("py2")), Bumped::Done);
    assert_eq!(peek(&mut inspector), ["other"]);
    let shown = inspector.attr("py2", 11, 10).unwrap().waiting;
    assert_eq!((shown[0].position, shown[0].full.is_some()), (None, true));
    assert_eq!(next_attr(&mut s, 11).as_deref(), Some("other"));
    assert_eq!(next(&mut s, 11), None);
    group(&mut s, |s| s.finish("py3", 0, 12));
    assert_eq!(next_attr(&mut s, 12).as_deref(), Some("py2"), "the bump is kept while its class is full");
}
