//! Each state of a path, in words.

use orchestrator_queue_rules::storage::{
    Attempt, AttrReport, InstanceRow, Limit, ListedRow, RunId, Sample, WaitingGroup,
};
use orchestrator_subsystem::{Item, NextChance, Progress};

use super::path::{Path, State};
use crate::workers_seen::WorkersSeen;

const NOW: i64 = 100_000;
const HOLD: i64 = 3_600;

fn run(started: i64) -> RunId {
    RunId { fetcher: "github".to_owned(), started }
}

fn attempt(attr_path: &str, started: i64, end: Option<(i64, Option<i64>)>) -> Attempt {
    Attempt {
        attr_path: attr_path.to_owned(),
        started,
        finished: end.map(|(at, _)| at),
        exit_code: end.and_then(|(_, code)| code),
        fetcher: Some("github".to_owned()),
        connection: Some("5 (pid 9 uid 1)".to_owned()),
        instance: None,
    }
}

fn waiting(position: Option<u64>, full: Option<Limit>) -> WaitingGroup {
    WaitingGroup { run: run(7), payload: "1 2".to_owned(), position, full }
}

/// A listed path with these groups that wait and this last attempt.
fn state(waiting: Vec<WaitingGroup>, attempts: Vec<Attempt>) -> State {
    let listed = vec![ListedRow { run: run(7), added: Some(90_000), handed_out: waiting.is_empty() }];
    let in_flight = attempts.first().filter(|last| last.finished.is_none()).cloned();
    let report = AttrReport { listed, waiting, in_flight, hold_secs: HOLD, attempts };
    State { report, now: NOW, holders: Vec::new(), instances: Vec::new() }
}

fn item(state: &State) -> Item {
    let workers = WorkersSeen::default();
    workers.counted(&Sample { waiting: 40, time_to_empty: Some(400), ..Sample::default() });
    Path { name: "a b", state, workers: &workers }.item()
}

fn limit(in_flight: u32) -> Limit {
    Limit { attr_path: Some("a*".to_owned()), fetcher: None, in_flight }
}

#[test]
fn a_waiting_job_has_its_position_and_the_rate_of_the_last_hour() {
    let found = item(&state(vec![waiting(Some(7), None)], vec![]));
    assert_eq!((found.name.as_str(), found.progress), ("queue/a b", Progress::Waits));
    assert_eq!(
        (found.text.as_str(), found.since_ms),
        ("waits at position 7 in run 7 of github", Some(90_000_000))
    );
    let cause = &found.causes[0];
    assert_eq!(
        (cause.text.as_str(), cause.help.as_str()),
        ("6 jobs are handed out before it", "orchestrator queue bump 'a b'")
    );
    assert!(cause.routine && cause.evidence[0].contains("7 jobs take 70 s"), "{cause:?}");
    assert_eq!(found.next, Some(NextChance::At { at_ms: 100_070_000 }));
    let far = item(&state(vec![waiting(Some(10_001), None)], vec![]));
    assert_eq!(far.text, "waits at position above 10000 in run 7 of github");
    assert_eq!(far.causes[0].text, "10000 jobs or more are handed out before it");
    assert_eq!(far.next, Some(NextChance::NotBefore { at_ms: 200_010_000 }));
    let unknown = Path {
        name: "a",
        state: &state(vec![waiting(Some(1), None)], vec![]),
        workers: &WorkersSeen::default(),
    };
    let unknown = unknown.item();
    assert_eq!(
        unknown.next,
        Some(NextChance::Unknown { reason: "fewer than 10 jobs ended in the last hour".to_owned() })
    );
    assert_eq!(unknown.causes[0].help, "start another worker, or wait until one asks");
}

#[test]
fn a_held_path_names_who_has_its_job_and_the_end_of_the_hold() {
    let found = item(&state(vec![waiting(None, None)], vec![attempt("a b", NOW - 60, None)]));
    assert_eq!((found.progress, found.causes[0].kind.as_str()), (Progress::Waits, "held"));
    assert!(found.causes[0].text.starts_with("the worker on connection 5 (pid 9 uid 1) has"), "{found:?}");
    assert_eq!(found.causes[0].help, "orchestrator queue requeue 'a b'");
    assert_eq!(found.next, Some(NextChance::NotBefore { at_ms: 103_541_000 }));
}

#[test]
fn a_job_in_flight_tells_whether_its_worker_is_connected() {
    let state = state(vec![], vec![attempt("a b", NOW - 60, None)]);
    let closed = item(&state);
    assert_eq!((closed.progress, closed.since_ms), (Progress::InProgress, Some(99_940_000)));
    assert!(closed.evidence[0].starts_with("its connection is closed"), "{closed:?}");
    let workers = WorkersSeen::default();
    workers.opened(&"5 (pid 9 uid 1)".into());
    // It was opened now: that of an attempt in 1970 had the name in a former process.
    let former = Path { name: "a b", state: &state, workers: &workers }.item();
    assert!(former.evidence[0].starts_with("its connection is closed"), "{former:?}");
    let mut later = state;
    let started = orchestrator_queue_store::unix_time() + 1;
    later.now = started;
    later.report.in_flight = Some(attempt("a b", started, None));
    let open = Path { name: "a b", state: &later, workers: &workers }.item();
    assert_eq!(open.evidence[0], "its connection is open");
    workers.begin();
    let restarted = Path { name: "a b", state: &later, workers: &workers }.item();
    assert!(restarted.evidence[0].starts_with("its connection is closed"), "{restarted:?}");
}

#[test]
fn a_job_of_a_dead_instance_names_its_host_and_lease() {
    let job = Attempt { instance: Some("n2".to_owned()), ..attempt("a b", NOW - 60, None) };
    let mut state = state(vec![], vec![job]);
    state.instances = vec![InstanceRow {
        instance: "n2".to_owned(),
        live: false,
        lease_until: 60,
        host: "far".to_owned(),
        socket: "s".to_owned(),
        fetchers: 0,
        in_flight: 1,
    }];
    let found = item(&state);
    assert!(found.text.contains("connection 5 (pid 9 uid 1) of instance n2"), "{found:?}");
    assert_eq!(found.evidence[0], "instance n2 on far is dead, its lease ended at 1970-01-01T00:01:00Z");
    assert_eq!((found.progress, found.causes[0].kind.as_str()), (Progress::Waits, "instance_dead"));
    assert_eq!(found.causes[0].help, "orchestrator queue requeue 'a b'");
    state.instances[0].live = true;
    assert_eq!(item(&state).progress, Progress::InProgress);
}

#[test]
fn a_full_limit_names_the_jobs_that_fill_it() {
    let mut state = state(vec![waiting(None, Some(limit(2)))], vec![]);
    state.holders = vec![attempt("a1", NOW - 90, None), attempt("a2", NOW - 30, None)];
    let found = item(&state);
    let cause = &found.causes[0];
    assert_eq!(cause.text, "the limit match = \"a*\" is full: 2 of 2 in flight");
    assert!(cause.evidence[0].starts_with("a1: handed out at ") && cause.evidence.len() == 2, "{cause:?}");
    assert_eq!(cause.since_ms, Some(99_970_000), "since the last of them was handed out");
    assert_eq!(found.next, Some(NextChance::Unknown { reason: "once one of these jobs ends".to_owned() }));

    state.report.waiting = vec![waiting(None, Some(limit(0)))];
    state.holders.clear();
    let none = item(&state);
    assert!(none.causes[0].text.ends_with("has in_flight = 0: none of its jobs is handed out"), "{none:?}");
    assert_eq!(none.next, Some(NextChance::Unknown { reason: "the limit allows no job".to_owned() }));
}

#[test]
fn an_ended_job_has_its_result_its_worker_and_its_duration() {
    let failed = |started| attempt("a b", started, Some((started + 30, Some(124))));
    let found = item(&state(vec![], vec![failed(3_000), failed(2_000), failed(1_000)]));
    assert_eq!(
        (found.progress, found.since_ms, found.next.clone()),
        (Progress::Ended, Some(3_030_000), None)
    );
    assert!(
        found.text.starts_with("failed 3 times in a row with exit code 124, at last by the worker on"),
        "{found:?}"
    );
    assert!(found.text.contains("after 30 s"), "{found:?}");
    let attempts = found.evidence.iter().filter(|fact| fact.contains("exit code 124 at 1970-01-01T")).count();
    assert_eq!(attempts, 3);
    let done = item(&state(vec![], vec![attempt("a b", 10, Some((12, Some(0)))), failed(1)]));
    assert!(done.text.starts_with("done by the worker on "), "{done:?}");
    let requeued = item(&state(vec![], vec![attempt("a b", 10, Some((12, None)))]));
    assert!(requeued.text.starts_with("its hold was ended by an operator"), "{requeued:?}");
}

#[test]
fn a_job_whose_hold_is_over_waits_for_a_report_or_a_newer_row() {
    let found = item(&state(vec![], vec![attempt("a b", NOW - HOLD - 1, None)]));
    assert_eq!((found.progress, found.causes[0].kind.as_str()), (Progress::Waits, "not_reported"));
    assert_eq!(found.causes[0].help, "orchestrator queue requeue 'a b'");
    let newer = item(&state(vec![waiting(Some(1), None)], vec![attempt("a b", NOW - HOLD - 1, None)]));
    assert_eq!((newer.progress, newer.causes[0].kind.as_str()), (Progress::Waits, "order"));
    let at_the_end = item(&state(vec![waiting(None, None)], vec![attempt("a b", NOW - HOLD, None)]));
    assert_eq!(at_the_end.causes[0].kind, "held", "a hold that ends now is still held");
}
