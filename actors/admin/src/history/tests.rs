//! Tests of the history: memory limit, retention and restored values.

use orchestrator_observe::{LabelSnapshot, MailboxSnapshot, MetricKind, MetricSnapshot, NodeSnapshot};
use orchestrator_supervise::{Restart, State};

use super::*;

/// A pseudo-random number that depends only on the arguments.
fn noise(a: u64, b: u64) -> u64 {
    let mixed = (a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 31)
}

fn node(path: &str, tick: u64, seed: u64) -> NodeSnapshot {
    let metric = |name: &str, kind, value: u64| MetricSnapshot {
        name: name.to_owned(),
        unit: String::new(),
        kind,
        help: "",
        label: None,
        value: value as i64,
        bound: None,
    };
    let mut metrics: Vec<_> = (0..12)
        .map(|i| metric(&format!("rows_{i}"), MetricKind::Counter, tick * 900 + noise(seed + i, tick) % 900))
        .collect();
    metrics.push(metric("depth_in_bytes", MetricKind::Gauge, noise(seed, tick) % 1_000_000));
    NodeSnapshot {
        path: path.to_owned(),
        id: path.rsplit('/').next().unwrap().to_owned(),
        label: None,
        kind: "actor".to_owned(),
        state: State::ALL[(noise(seed, tick / 10) % 8) as usize],
        stuck: false,
        shown: String::new(),
        restart: Restart::Permanent.name().to_owned(),
        strategy: None,
        intensity: None,
        period_ms: None,
        paused_until_ms: None,
        pausable: false,
        console: false,
        durable: Vec::new(),
        sends_to: Vec::new(),
        arbiter: None,
        arbiter_silent_ms: None,
        incarnation: 1 + tick / 10,
        started_ms: 1,
        restarts: tick / 10,
        planned_restarts: tick / 7,
        budget_left: 1,
        last_exit: None,
        retry_in_ms: None,
        mailboxes: vec![MailboxSnapshot {
            name: "mailbox".to_owned(),
            depth: (noise(seed, tick) % 100) as usize,
            capacity: 100,
            high_water: 100,
            refused: tick / 7,
            handled: tick * 5_000 + noise(seed, tick) % 5_000,
            purged: 0,
            messages: Vec::new(),
        }],
        in_progress: None,
        waits: Vec::new(),
        link: None,
        note: None,
        blocker: None,
        last_work: None,
        expected_inputs: Vec::new(),
        metrics,
        timings: Vec::new(),
        children: Vec::new(),
    }
}

pub(crate) fn tree(children: u64, tick: u64, at_ms: u64) -> TreeSnapshot {
    let mut root = node("o", 0, 0);
    root.children = (0..children).map(|i| node(&format!("o/c{i}"), tick, i * 100)).collect();
    TreeSnapshot { seq: 0, captured_at_ms: at_ms, uptime_ms: at_ms, root }
}

#[test]
fn the_oldest_samples_are_removed_at_the_limit() {
    let limit = 8 * 1024 * 1024;
    let mut history = History::new(limit);
    let last = 199;
    for tick in 0..=last {
        let at_ms = 1_000_000 + tick * STEP_MS;
        history.record(&tree(500, tick, at_ms));
        assert!(history.usage().bytes <= limit, "{:?}", history.usage());
    }
    let usage = history.usage();
    let sample = 8 * usage.series;
    assert!(usage.bytes + 2 * sample > limit, "no sample is removed too early: {usage:?}");
    let columns = history.columns("o/c7", false, &["rows_3".to_owned()], 0);
    let kept = last + 1 - columns.at_ms.len() as u64..=last;
    assert!(*kept.start() > 0, "{usage:?}");
    let expected: Vec<u64> = kept.clone().map(|tick| 1_000_000 + tick * STEP_MS).collect();
    assert_eq!((columns.at_ms, usage.oldest_ms), (expected.clone(), Some(expected[0])));
    let expected: Vec<i64> = kept.map(|tick| (tick * 900 + noise(703, tick) % 900) as i64).collect();
    assert_eq!(columns.series[0].values, expected);
}

#[test]
fn an_hour_of_5_000_series_is_kept_in_memory_and_in_a_file() {
    let mut history = History::new(LIMIT_BYTES);
    let children = 5_000 / 23;
    for tick in 0..720 {
        history.record(&tree(children, tick, tick * STEP_MS));
    }
    let usage = history.usage();
    assert_eq!((usage.samples, usage.oldest_ms), (720, Some(0)), "{usage:?}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history");
    store(&history, &path).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    assert!(length < 20_000_000, "{length}");
    assert_eq!(load(&path).unwrap().expect("a history").usage(), usage);
}

#[test]
fn samples_and_names_older_than_an_hour_are_removed() {
    let mut history = History::new(LIMIT_BYTES);
    let mut first = tree(2, 0, 0);
    first.root.metrics[0].label =
        Some(LabelSnapshot { name: "worker".to_owned(), value: "<img src=x onerror=..>".to_owned() });
    history.record(&first);
    let series = history.usage().series;
    let labelled = history.columns("o", false, &["rows_0".to_owned()], 0);
    assert_eq!(labelled.series[0].metric, "rows_0{worker=<img src=x onerror=..>}");
    for tick in 1..2_000 {
        history.record(&tree(2, tick, tick * STEP_MS));
    }
    assert_eq!(
        history.usage().series,
        series,
        "the series with the label is removed, the one without it is new"
    );
    let columns = history.columns("o", true, &["rows_0".to_owned()], 0);
    assert_eq!((columns.series.len(), history.count("o", true, &["rows_0".to_owned()])), (3, 3));
    let kept = columns.at_ms.last().unwrap() - columns.at_ms[0];
    assert_eq!(kept, RETENTION_MS);
}

#[test]
fn a_missing_value_is_absent_and_sums_skip_it() {
    let mut history = History::new(LIMIT_BYTES);
    history.record(&tree(2, 0, 0));
    history.record(&tree(1, 1, STEP_MS));
    history.record(&tree(2, 2, 2 * STEP_MS));
    let metric = ["mailbox_handled".to_owned()];
    let second = history.columns("o/c1", false, &metric, 0);
    assert_eq!(second.series[0].values[1], ABSENT);
    let sum = history.sums("o", &metric, 0);
    let one = |path: &str| history.columns(path, false, &metric, 0).series[0].values.clone();
    let (root, first) = (one("o"), one("o/c0"));
    assert_eq!(sum.series[0].values[1], root[1] + first[1]);
    assert_eq!(sum.series[0].values[2], root[2] + first[2] + one("o/c1")[2]);
    assert_eq!(history.columns("o", true, &metric, STEP_MS + 1).at_ms, [2 * STEP_MS]);
}

#[test]
fn a_past_tree_is_restored() {
    let mut history = History::new(LIMIT_BYTES);
    for tick in 0..200 {
        history.record(&tree(3, tick, 1_000 + tick * STEP_MS));
    }
    assert!(history.at(999).is_none(), "before the first sample");
    for tick in [0u64, 1, 59, 60, 61, 199] {
        let at_ms = 1_000 + tick * STEP_MS;
        let (found, values) = history.at(at_ms + STEP_MS / 2).unwrap();
        assert_eq!(found, at_ms);
        let mut restored = tree(3, 500, 10_000_000);
        rewind(&mut restored, found, &values);
        let expected = tree(3, tick, at_ms);
        let (restored, expected) = (&restored.root.children[2], &expected.root.children[2]);
        assert_eq!(
            (&restored.state, restored.restarts, restored.planned_restarts),
            (&expected.state, expected.restarts, expected.planned_restarts)
        );
        assert_eq!(restored.metrics, expected.metrics);
        assert_eq!(restored.mailboxes[0].handled, expected.mailboxes[0].handled);
    }
}

#[test]
fn a_past_tree_has_only_the_children_of_that_time() {
    let mut history = History::new(LIMIT_BYTES);
    history.record(&tree(1, 0, 0));
    history.record(&tree(3, 1, STEP_MS));
    let children = |at_ms| {
        let (found, values) = history.at(at_ms).unwrap();
        let mut restored = tree(3, 5, 10 * STEP_MS);
        rewind(&mut restored, found, &values);
        restored.root.children.len()
    };
    assert_eq!([children(0), children(STEP_MS)], [1, 3]);
    let before = history.usage();
    for tick in 2..2_000 {
        history.record(&tree(1, tick, tick * STEP_MS));
    }
    assert!(history.usage().series < before.series, "series of removed children expire");
    assert_eq!(history.names.len(), 2, "paths of removed children expire");
    history.record(&tree(3, 2_000, 2_000 * STEP_MS));
    let last = history.samples.back().unwrap();
    assert_eq!(last.values.len(), before.series, "indices of ended series are used again");
}

/// A clock that jumps changes the times of all samples, so that their age stays right.
#[test]
fn samples_keep_their_age_when_the_clock_jumps() {
    const YEAR_MS: u64 = 365 * 24 * RETENTION_MS;
    let mut history = History::new(LIMIT_BYTES);
    // The clock is wrong for the second of three spans of samples.
    for tick in 0..300 {
        let wrong = if (100..200).contains(&tick) { YEAR_MS } else { 0 };
        let mut sample = tree(1, tick, YEAR_MS + tick * STEP_MS + wrong);
        sample.uptime_ms = tick * STEP_MS;
        assert!(history.is_due(sample.captured_at_ms), "{tick}");
        history.record(&sample);
        let times = history.columns("o", false, &["child_state".to_owned()], 0).at_ms;
        let expected = (0..=tick).map(|tick| YEAR_MS + tick * STEP_MS + wrong).collect::<Vec<_>>();
        assert_eq!(times, expected, "{tick}");
    }
    assert_eq!(history.at(YEAR_MS + 150 * STEP_MS).map(|(at, _)| at), Some(YEAR_MS + 150 * STEP_MS));
}

/// An adjustment of less than a second moves no sample, and times still ascend.
#[test]
fn a_small_adjustment_of_the_clock_keeps_the_times() {
    let mut history = History::new(LIMIT_BYTES);
    history.record(&tree(1, 0, 1_000_000));
    assert!(!history.is_due(1_001_000) && history.is_due(1_005_000) && history.is_due(500_000));
    for (at_ms, uptime_ms) in [(1_000_000, 1_000_500), (999_000, 1_000_000)] {
        let mut next = tree(1, 1, at_ms);
        next.uptime_ms = uptime_ms;
        history.record(&next);
    }
    let times = history.columns("o", false, &["child_state".to_owned()], 0).at_ms;
    assert_eq!(times, [1_000_000, 1_000_001, 1_000_002]);
}
