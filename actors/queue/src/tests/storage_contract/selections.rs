//! Selections of jobs by operators: filters of requests and questions, and figures of the last day.

use std::time::Duration;

use orchestrator_queue_rules::storage::{
    Bumped, Ends, FailedAttempts, JobFilter, JobState, ListedRow, Questions as _, RunId,
};

use orchestrator_queue_sqlite::{Inspector, Options};

use crate::tests::store::*;

const PLENTY: Duration = Duration::from_secs(60);
const DAY: i64 = 86_400;

fn inspector(s: &TestStore) -> Inspector {
    Inspector::open(&s.path(), Options::default(), PLENTY).unwrap()
}

fn all(state: JobState) -> JobFilter {
    JobFilter { state, pattern: None, exit_code: None, since: None, until: None }
}

/// Requeues the jobs of a filter, each slice in a transaction of its own and as short as possible. Returns
/// their number and that of the slices.
fn requeue(s: &mut TestStore, filter: &JobFilter) -> (u64, usize) {
    let (mut jobs, mut slices, mut next) = (0, 0, Some(String::new()));
    while let Some(from) = next {
        let slice = group(s, |s| s.requeue_slice(filter, &from, Duration::ZERO, 500));
        jobs += slice.jobs;
        slices += 1;
        next = slice.next;
    }
    (jobs, slices)
}

/// Hands out `a`, `b`, .. at 101, 102, .. and ends all except the last with these exit codes.
fn ended(kind: Kind, codes: &[i64]) -> TestStore {
    let mut s = TestStore::of(kind, Options::default());
    let paths: Vec<String> = ('a'..='z').take(codes.len() + 1).map(String::from).collect();
    for (path, now) in paths.iter().zip(101..) {
        feed(&mut s, "f1", now, &[(path, "0 1")]);
        assert_eq!(next_attr(&mut s, now).as_deref(), Some(path.as_str()));
    }
    for (path, code) in paths.iter().zip(codes) {
        group(&mut s, |s| s.finish(path, *code, 200));
    }
    s
}

#[test]
fn jobs_of_a_filter_are_requeued_once_and_in_slices() {
    for kind in Kind::ALL {
        let mut s = ended(kind, &[3, 0, 4, 3]);
        assert_eq!(requeue(&mut s, &all(JobState::Failed)), (3, 6));
        assert_eq!(requeue(&mut s, &all(JobState::Failed)).0, 0, "they are available already");
        let mut given: Vec<_> = std::iter::from_fn(|| next_attr(&mut s, 600)).collect();
        given.sort();
        assert_eq!(given, ["a", "c", "d"]);
        let held = JobFilter { until: Some(105), ..all(JobState::InFlight) };
        assert_eq!(requeue(&mut s, &held).0, 1, "e, and not those handed out later");
        assert_eq!(next_attr(&mut s, 600).as_deref(), Some("e"));
    }
}

#[test]
fn a_filter_selects_by_code_time_and_pattern() {
    for (filter, jobs) in [
        (JobFilter { exit_code: Some(3), ..all(JobState::Failed) }, 2),
        (JobFilter { since: Some(104), ..all(JobState::Failed) }, 1),
        (JobFilter { until: Some(103), ..all(JobState::Failed) }, 2),
        (JobFilter { pattern: "c*".parse().ok(), ..all(JobState::Failed) }, 1),
        (JobFilter { exit_code: Some(3), ..all(JobState::InFlight) }, 0),
        (all(JobState::InFlight), 1),
    ] {
        for kind in Kind::ALL {
            assert_eq!(requeue(&mut ended(kind, &[3, 0, 4, 3]), &filter).0, jobs, "{kind:?} {filter:?}");
        }
    }
}

#[test]
fn questions_are_limited_to_a_pattern() {
    let mut s = ended(Kind::Sqlite, &[3, 0, 4, 3]);
    feed(&mut s, "f2", 1, &[("py1", "0 1"), ("x", "0 1"), ("py2", "0 1"), ("e", "0 1")]);
    let mut inspector = inspector(&s);
    let pattern = |text: &str| text.parse().ok();
    let peeked = inspector.peek(pattern("py?").as_ref(), 300, 10).unwrap();
    let mut paths: Vec<_> = peeked.into_iter().map(|job| job.attr_path).collect();
    paths.sort();
    assert_eq!(paths, ["py1", "py2"]);
    assert_eq!(inspector.in_flight(pattern("e").as_ref(), 10).unwrap().len(), 1);
    assert_eq!(inspector.in_flight(pattern("ee").as_ref(), 10).unwrap(), []);
    let failed = FailedAttempts { pattern: pattern("?"), limit: 10, ..FailedAttempts::default() };
    assert_eq!(inspector.failed(&failed).unwrap().len(), 3);
    let failed = FailedAttempts { pattern: pattern("d*"), ..failed };
    assert_eq!(inspector.failed(&failed).unwrap().len(), 1);
}

#[test]
fn ends_of_a_day_and_the_rate_of_an_hour_are_counted() {
    let now = 10 * DAY;
    let mut s = TestStore::new();
    feed_batch(&mut s, "f1", 1, &packages(40));
    let mut end = |started: i64, finished: i64, code: i64| {
        let path = next_attr(&mut s, started).unwrap();
        group(&mut s, |s| s.finish(&path, code, finished));
        path
    };
    end(now - 2 * DAY, now - DAY - 1, 0);
    end(now - 2 * DAY, now - DAY, 0);
    let paths: Vec<_> =
        (0..9).map(|ended| end(now - 1_800 + ended, now - ended, i64::from(ended % 3 == 0))).collect();
    let first = &paths[0];
    let mut inspector = inspector(&s);
    let sample = inspector.sample(now).unwrap();
    assert_eq!(sample.ends, Ends { done: 7, failed: 3, since: now - DAY });
    assert_eq!((sample.waiting, sample.time_to_empty), (29, None), "nine ended in the last hour");
    // A later attempt replaces the end of an earlier one in the log.
    feed(&mut s, "f2", 1, &[(first, "0 1")]);
    assert_eq!(group(&mut s, |s| s.bump(first)), Bumped::Done);
    assert_eq!(next_attr(&mut s, now).as_ref(), Some(first));
    group(&mut s, |s| s.finish(first, 0, now));
    let sample = inspector.sample(now).unwrap();
    assert_eq!((sample.ends.done, sample.ends.failed), (8, 3));
    assert_eq!(
        sample.time_to_empty,
        Some(1_800 * sample.waiting / 10),
        "since the first hand-out of the hour"
    );
}

#[test]
fn ends_are_counted_since_the_oldest_attempt_that_is_kept() {
    let now = 10 * DAY;
    let options = Options { attempts: 5, ..Options::default() };
    let mut s = TestStore::with(options.clone());
    feed_batch(&mut s, "f1", 1, &packages(9));
    for started in now - 9..now {
        assert!(next_attr(&mut s, started).is_some());
    }
    let mut inspector = Inspector::open(&s.path(), options, PLENTY).unwrap();
    let oldest = s.number("SELECT min(started) FROM orchestrator_attempt");
    assert!(oldest > now - 9);
    assert_eq!(inspector.sample(now).unwrap().ends.since, oldest);
}

#[test]
fn show_lists_the_runs_of_a_path() {
    let mut s = TestStore::new();
    for (fetcher, run) in [("f1", 1), ("f1", 3), ("f2", 2), ("f2", 4)] {
        feed(&mut s, fetcher, run, &[("alpha", "0 1")]);
    }
    group(&mut s, |s| s.mark_deleted(&RunId::new("f2", 4)));
    s.foreign().execute("UPDATE orchestrator_run SET added = 7", []).unwrap();
    assert!(next_attr(&mut s, 10).is_some());
    let listed = inspector(&s).attr("alpha", 11, 10).unwrap().listed;
    let row = |fetcher: &str, started, handed_out| ListedRow {
        run: RunId::new(fetcher, started),
        added: Some(7),
        handed_out,
    };
    assert_eq!(listed, [row("f1", 3, true), row("f2", 2, false), row("f1", 1, true)]);
}
