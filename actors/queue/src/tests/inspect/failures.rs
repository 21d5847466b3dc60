//! Numbers of failed jobs, read while they fail.

use std::thread;

use super::{
    config,
    queues::{InPostgres, PLENTY, Queue},
};
use orchestrator_queue_rules::storage::{FailedJob, Questions as _};

/// Number of transactions of each writer.
const TRANSACTIONS: i64 = 60;

/// A queue in which these paths are in flight.
fn in_flight(paths: &[&str]) -> InPostgres {
    let mut queue = InPostgres::new(&config(Vec::new()));
    queue.feed("f1", 1, 0, paths);
    for _ in paths {
        assert!(queue.take(10).is_some());
    }
    queue
}

fn paths(jobs: &[FailedJob]) -> Vec<&str> {
    jobs.iter().map(|job| job.attr_path.as_str()).collect()
}

#[test]
fn a_job_of_an_earlier_transaction_that_commits_later_has_a_larger_number() {
    let mut queue = in_flight(&["early", "late"]);
    let (mut other, mut inspector) = (queue.same(), queue.open(PLENTY));
    queue.batch("BEGIN");
    queue.end("early", 1, 20);
    other.finish("late", 2, 21);
    let first = inspector.failures(0, 10).unwrap();
    assert_eq!(paths(&first), ["late"]);
    queue.batch("COMMIT");
    let second = inspector.failures(first[0].number, 10).unwrap();
    let expected = FailedJob {
        number: second[0].number,
        attr_path: "early".to_owned(),
        exit_code: 1,
        started: 10,
        finished: 20,
        fetcher: Some("f1".to_owned()),
    };
    assert_eq!(second, [expected]);
    assert!(second[0].number > first[0].number);
    assert_eq!(inspector.failures(0, 10).unwrap(), [first, second].concat());
}

#[test]
fn readers_miss_no_job_while_writers_commit() {
    let queue = in_flight(&["a", "b"]);
    let write = |path: &'static str| {
        let mut queue = queue.same();
        move || {
            for n in 0..TRANSACTIONS {
                queue.batch("BEGIN");
                for _ in 0..=n % 3 {
                    queue.end(path, 1 + n, 100 + n);
                }
                queue.batch("COMMIT");
            }
        }
    };
    let read = || {
        let mut inspector = queue.open(PLENTY);
        move || {
            let (mut read, mut last): (Vec<FailedJob>, i64) = (Vec::new(), 0);
            while read.len() < 4 * TRANSACTIONS as usize {
                let next = inspector.failures(last, 7).unwrap();
                last = next.last().map_or(last, |job| job.number);
                read.extend(next);
            }
            read
        }
    };
    let readers = [read(), read()].map(thread::spawn);
    let writers = ["a", "b"].map(|path| thread::spawn(write(path)));
    let [one, two] = readers.map(|reader| reader.join().unwrap());
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(one, two);
    assert!(one.is_sorted_by(|a, b| a.number < b.number));
    for path in ["a", "b"] {
        let codes: Vec<i64> =
            one.iter().filter(|job| job.attr_path == path).map(|job| job.exit_code).collect();
        let written: Vec<i64> =
            (0..TRANSACTIONS).flat_map(|n| std::iter::repeat_n(1 + n, 1 + n as usize % 3)).collect();
        assert_eq!(codes, written, "{path}");
    }
}

#[test]
fn the_last_ten_thousand_are_kept() {
    let mut queue = in_flight(&["a"]);
    queue.batch(
        "INSERT INTO failure (attr_path, started, finished, exit_code) SELECT 'a', 10, n, 1 FROM generate_series(1, 25000) AS n",
    );
    let mut inspector = queue.open(PLENTY);
    for expected in [1, 10_001, 15_001, 15_001] {
        assert_eq!(inspector.failures(0, 1).unwrap()[0].finished, expected);
    }
    let kept = queue.query("SELECT count(*), min(finished), max(finished) FROM failure", Vec::new());
    assert_eq!([0, 1, 2].map(|column| kept[0].try_get::<_, i64>(column).unwrap()), [10_000, 15_001, 25_000]);
}
