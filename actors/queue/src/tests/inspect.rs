//! Questions of operators to both stores, which must give the same answers.

mod failures;
mod queues;

use std::{fs, time::Duration};

use fastrand::Rng;
use orchestrator_edge::postgres::{PostgresError, SqlState};
use orchestrator_queue_rules::{
    listing::{GroupState, ListedGroup},
    storage::{FailedAttempts, HeldJobs, Limit, POSITION_MAX, Pattern, Questions as _, Waiting},
};
use orchestrator_supervise::StopToken;
use queues::{InPostgres, InSqlite, PLENTY, Queue};

use orchestrator_queue_postgres::PostgresInspector;

use crate::config::QueueConfig;

fn limit(attr_path: Option<&str>, fetcher: Option<&str>, in_flight: u32) -> Limit {
    Limit { attr_path: attr_path.map(str::to_owned), fetcher: fetcher.map(str::to_owned), in_flight }
}

fn config(limit: Vec<Limit>) -> QueueConfig {
    QueueConfig { hold_secs: 60, limit, ..QueueConfig::default() }
}

fn pattern(text: &str) -> Option<Pattern> {
    Some(text.parse().unwrap())
}

/// Answers to all questions about these paths. Numbers of failures differ between stores, and only their
/// order counts.
fn answers(queue: &mut dyn Queue, paths: &[&str], now: i64) -> Vec<String> {
    let waiting = match queue.waiting(now) {
        // SQLite names a path whose hold is over after the others.
        Waiting::Limited { .. } => "limited".to_owned(),
        waiting => format!("{waiting:?}"),
    };
    let mut inspector = queue.inspector();
    let mut answers = vec![format!("waiting {waiting}"), format!("runs {:?}", inspector.runs().unwrap())];
    let patterns = ["a?", "*1", "a_", "?%", "*\\"].map(|text| (pattern(text), 1_000));
    for (which, limit) in [(None, 1_000), (None, 2), (pattern("*1"), 1)].into_iter().chain(patterns) {
        answers.push(format!(
            "peek {which:?} {limit} {:?}",
            inspector.peek(which.as_ref(), now, limit).unwrap()
        ));
        answers.push(format!("in flight {:?}", inspector.in_flight(which.as_ref(), limit).unwrap()));
        for (exit_code, since) in [(None, None), (Some(2), Some(now - 100))] {
            let which = FailedAttempts { exit_code, since, pattern: which.clone(), limit };
            answers.push(format!("failed {which:?} {:?}", inspector.failed(&which).unwrap()));
        }
    }
    for before in [now - 100, now] {
        for limit in [3, 100] {
            answers.push(format!("stale {before} {limit} {:?}", inspector.stale(before, limit).unwrap()));
        }
    }
    for path in paths {
        for limit in [1, 100] {
            answers.push(format!("{path} {limit} {:?}", inspector.attr(path, now, limit).unwrap()));
        }
        let mut neighbors = inspector.neighbors(path).unwrap();
        neighbors.sort();
        answers.push(format!("{path} is near {neighbors:?}"));
    }
    let mut last_runs = inspector.last_runs().unwrap();
    last_runs.sort();
    answers.push(format!("last runs {last_runs:?}"));
    answers.push(format!("counts {:?}", inspector.counts().unwrap()));
    answers.push(format!("sample {:?}", inspector.sample(now).unwrap()));
    let mut failures = inspector.failures(0, 1_000).unwrap();
    assert!(failures.is_sorted_by(|a, b| a.number < b.number));
    failures.iter_mut().for_each(|job| job.number = 0);
    answers.push(format!("failures {failures:?}"));
    let mut listing = inspector.listing(now).unwrap();
    // Jobs handed out in the same second have no order.
    let handed_out = listing.groups.partition_point(|group| {
        matches!(group.state, GroupState::Waiting | GroupState::Held | GroupState::Limited)
    });
    listing.groups[handed_out..].sort_by(|a, b| {
        let started = |group: &ListedGroup| group.last.map(|log| -log.started);
        (started(a), &a.attr_path, a.fetcher).cmp(&(started(b), &b.attr_path, b.fetcher))
    });
    answers.push(format!("listing {listing:?}"));
    answers
}

const PATHS: [&str; 9] = ["a1", "a2", "a_", "b1", "b2", "c%", "d\\", "é1", "unknown"];

/// Changes both queues in the same way.
fn change(queues: &mut [&mut dyn Queue; 2], random: &mut Rng, now: i64) {
    let path = PATHS[random.usize(..PATHS.len() - 1)];
    let fetcher = ["f1", "f2", "g"][random.usize(..3)];
    let run = random.i64(1..4);
    match random.u8(..14) {
        0..=2 => {
            let mut paths = PATHS[..8].to_vec();
            random.shuffle(&mut paths);
            paths.truncate(random.usize(1..8));
            queues.iter_mut().for_each(|queue| queue.feed(fetcher, run, now, &paths));
        }
        3..=7 => {
            let taken = queues.each_mut().map(|queue| queue.take(now));
            assert_eq!(taken[0], taken[1], "at {now}");
        }
        8..=10 => {
            let code = random.i64(0..3);
            queues.iter_mut().for_each(|queue| queue.finish(path, code, now));
        }
        11 => queues.iter_mut().for_each(|queue| queue.bump(path)),
        12 => queues.iter_mut().for_each(|queue| queue.requeue(path, now)),
        _ => queues.iter_mut().for_each(|queue| queue.delete(fetcher, run)),
    }
}

#[test]
fn both_stores_give_the_same_answers() {
    let limits =
        vec![limit(Some("a?"), None, 2), limit(None, Some("f2"), 1), limit(Some("d*"), Some("g"), 0)];
    for seed in 0..6 {
        let config = config(if seed % 2 == 0 { limits.clone() } else { Vec::new() });
        let (mut sqlite, mut postgres) = (InSqlite::new(&config), InPostgres::new(&config));
        let (mut random, mut now) = (Rng::with_seed(seed), 100_000);
        for step in 0..60 {
            change(&mut [&mut sqlite, &mut postgres], &mut random, now);
            if step % 10 == 9 {
                let expected = answers(&mut sqlite, &PATHS, now);
                for (answer, expected) in answers(&mut postgres, &PATHS, now).iter().zip(&expected) {
                    assert_eq!(answer, expected, "seed {seed}, step {step}, at {now}");
                }
            }
            now += random.i64(0..25);
        }
    }
}

#[test]
fn a_changed_address_is_read_at_the_next_connection() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dsn");
    let mut config = InPostgres::new(&config(Vec::new())).config();
    config.postgres.dsn_file = Some(file.clone());
    let mut inspector = PostgresInspector::new(&config.instance(), PLENTY, StopToken::new());
    fs::write(&file, "postgresql:///inspected?host=/nowhere").unwrap();
    assert!(inspector.counts().unwrap_err().to_string().contains("cannot connect"));
    fs::write(&file, config.postgres.dsn.expose()).unwrap();
    inspector.counts().unwrap();
}

#[test]
fn waiting_jobs_are_ready_limited_or_held() {
    let config = config(vec![limit(Some("a*"), None, 1)]);
    for queue in [&mut InSqlite::new(&config) as &mut dyn Queue, &mut InPostgres::new(&config)] {
        assert_eq!(queue.waiting(100), Waiting::Nothing);
        queue.feed("f1", 1, 90, &["a1", "a2", "b1"]);
        queue.feed("f2", 1, 90, &["b1"]);
        assert_eq!(queue.waiting(100), Waiting::Ready);
        let taken = [queue.take(100), queue.take(101)].map(Option::unwrap);
        assert!(taken.contains(&"b1".to_owned()), "{taken:?}");
        let attr_path = if taken.contains(&"a1".to_owned()) { "a2" } else { "a1" }.to_owned();
        assert_eq!(queue.waiting(110), Waiting::Limited { attr_path, limit: config.limit[0].clone() });
        let first = taken.iter().find(|path| path.starts_with('a')).unwrap();
        queue.finish(first, 0, 110);
        assert!(queue.take(110).is_some_and(|path| path.starts_with('a')));
        let started = taken.iter().position(|path| path == "b1").unwrap() as i64 + 100;
        let time = |at: i64| format!("1970-01-01T00:{:02}:{:02}Z", at / 60, at % 60);
        let (started, until) = (time(started), time(started + 60));
        let held = HeldJobs { attr_path: "b1".to_owned(), started, until, jobs: 1 };
        assert_eq!(queue.waiting(111), Waiting::Held(held));
        assert_eq!(queue.waiting(200), Waiting::Ready, "the hold is over");
    }
}

#[test]
fn an_answer_ends_at_a_mebibyte() {
    let config = config(Vec::new());
    let paths: Vec<String> = (0..60).map(|number| format!("{number:0>20000}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let long = paths[0];
    for queue in [&mut InSqlite::new(&config) as &mut dyn Queue, &mut InPostgres::new(&config)] {
        queue.feed("f1", 1, 0, &paths);
        queue.feed("f2", 1, 0, &paths);
        let within = |bytes: usize| (1 << 20) / bytes;
        assert_eq!(queue.inspector().peek(None, 100, 1_000).unwrap().len(), within(20_004));
        assert_eq!(queue.inspector().stale(100, 1_000).unwrap().len(), within(20_002));
        for run in 2..60 {
            queue.feed("f1", run, 0, &[long]);
            queue.bump(long);
            assert_eq!(queue.take(run).as_deref(), Some(long));
            queue.finish(long, 7, run);
        }
        let failed = FailedAttempts { limit: 1_000, ..FailedAttempts::default() };
        assert_eq!(queue.inspector().failed(&failed).unwrap().len(), within(20_002));
        assert_eq!(queue.inspector().failures(0, 1_000).unwrap().len(), within(20_000));
        assert_eq!(queue.inspector().attr(long, 1_000, 1_000).unwrap().attempts.len(), within(20_002));
    }
}

#[test]
fn places_are_exact_up_to_a_bound() {
    let paths: Vec<String> = (0..POSITION_MAX + 2).map(|number| format!("p{number:05}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let config = config(Vec::new());
    for queue in [&mut InSqlite::new(&config) as &mut dyn Queue, &mut InPostgres::new(&config)] {
        queue.feed("f1", 1, 0, &paths);
        let mut inspector = queue.inspector();
        let listing = inspector.listing(100).unwrap();
        let mut place =
            |at: usize| inspector.attr(&listing.groups[at].attr_path, 100, 1).unwrap().waiting[0].position;
        let most = POSITION_MAX as usize;
        assert_eq!(
            [0, 1, most - 1, most, most + 1].map(&mut place),
            [Some(1), Some(2), Some(POSITION_MAX), Some(POSITION_MAX + 1), Some(POSITION_MAX + 1)]
        );
    }
}

#[test]
fn a_question_shows_the_beginning_of_a_payload() {
    let mut queue = InPostgres::new(&config(Vec::new()));
    queue.feed("f1", 1, 0, &["alpha"]);
    queue.batch("UPDATE payload SET payload = repeat('é', 100000)");
    let (mut inspector, start) = (queue.inspector(), "é".repeat(500));
    assert_eq!(inspector.peek(None, 10, 10).unwrap()[0].payload, start);
    assert_eq!(inspector.attr("alpha", 10, 10).unwrap().waiting[0].payload, start);
    assert_eq!(inspector.listing(10).unwrap().groups[0].payload, start);
}

#[test]
fn a_question_fails_at_its_deadline_and_the_next_one_is_answered() {
    let mut queue = InPostgres::new(&config(Vec::new()));
    queue.feed("f1", 1, 0, &["alpha"]);
    let mut inspector = queue.open(Duration::from_millis(500));
    queue.batch("BEGIN; LOCK TABLE listing");
    let error = inspector.peek(None, 10, 10).unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let cause = error.source_as::<PostgresError>().expect("an error of the server");
    assert_eq!(cause.state, Some(SqlState::QUERY_CANCELED), "{error}");
    queue.batch("ROLLBACK");
    assert_eq!(inspector.peek(None, 10, 10).unwrap().len(), 1, "on another connection");
}

#[test]
fn altered_tables_are_an_error() {
    let mut queue = InPostgres::new(&config(Vec::new()));
    queue.feed("f1", 1, 0, &["alpha"]);
    queue.batch("ALTER TABLE run ALTER COLUMN added TYPE integer");
    let error = queue.inspector().last_runs().unwrap_err();
    assert!(error.text.contains("were altered") && error.is_retryable(), "{error}");
    assert!(error.to_string().contains("restore them"), "{error}");
}
