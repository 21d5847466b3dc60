//! What a request costs, counted in steps of SQLite's machine: the same in a small and in a large queue.

use orchestrator_queue::edge::sqlite::{Options, SqliteStore, Synchronous};
use orchestrator_queue::storage::{Batch, Deletion, RunId, Storage, StorageError, Upsert};
use rusqlite::Connection;
use std::sync::atomic::Ordering;
use std::time::Duration;

struct World {
    _dir: tempfile::TempDir,
    store: SqliteStore,
    foreign: Connection,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q.db");
        let options = Options { synchronous: Synchronous::Normal, ..Options::default() };
        let store = SqliteStore::open(&path, options).unwrap();
        let foreign = Connection::open(&path).unwrap();
        Self { _dir: dir, store, foreign }
    }

    fn feed(&mut self, fetcher: &str, started: i64, names: impl IntoIterator<Item = String>) {
        let run = RunId::new(fetcher, started);
        let batch = Batch::new(names.into_iter().map(|name| (name, "0 1".to_owned())));
        self.group(|s| {
            assert_eq!(s.upsert_run(&run, false)?, Upsert::Done);
            s.enqueue(&run, &batch, 0, None)
        });
    }

    fn group<T>(&mut self, work: impl FnOnce(&mut SqliteStore) -> Result<T, StorageError>) -> T {
        self.store.begin().unwrap();
        let done = work(&mut self.store).unwrap();
        self.store.commit().unwrap();
        done
    }

    /// Hands out everything.
    fn drain(&mut self, now: i64) {
        self.group(|s| {
            while let Some(job) = s.dequeue(now)? {
                s.delivered(job.handout)?;
            }
            Ok(())
        });
    }

    /// Steps of `work` in a group of its own; the memory of heads is there before.
    fn steps<T>(&mut self, work: impl FnOnce(&mut SqliteStore) -> Result<T, StorageError>) -> (T, u64) {
        let steps = self.store.count_steps().unwrap();
        self.store.begin().unwrap();
        let before = steps.load(Ordering::Relaxed);
        let done = work(&mut self.store).unwrap();
        let after = steps.load(Ordering::Relaxed);
        self.store.commit().unwrap();
        (done, after - before)
    }
}

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("pkg{n}"))
}

/// A queue whose first `blocked` groups cannot be handed out, by three ways of blocking, with two jobs behind them.
fn blocked_queue(way: &str, blocked: usize) -> World {
    let mut world = World::new();
    match way {
        "dequeued" => {
            world.feed("f1", 1, names(blocked));
            world.drain(10);
        }
        "held" => {
            world.feed("f1", 1, names(blocked));
            world.feed("f2", 1, names(blocked));
            world.drain(10);
        }
        _ => {
            // Shadowed: the newest row of each was handed out, an older run's row came later.
            world.feed("f1", 2, names(blocked));
            world.drain(10);
            world.group(|s| {
                for name in names(blocked) {
                    s.finish(&name, 0, 11)?;
                }
                Ok(())
            });
            world.feed("f1", 1, names(blocked));
        }
    }
    // Started later than all of them, so that they sort before these.
    world.foreign.execute_batch("INSERT INTO log VALUES ('x', 20, 21, 0), ('y', 22, 23, 0)").unwrap();
    world.feed("f1", 3, ["x".to_owned(), "y".to_owned()]);
    world
}

#[test]
fn blocked_groups_in_front_cost_nothing() {
    for way in ["dequeued", "held", "shadowed"] {
        let mut costs = Vec::new();
        for blocked in [10, 5_000] {
            let mut world = blocked_queue(way, blocked);
            let (job, dequeue) = world.steps(|s| s.dequeue(30));
            assert_eq!(job.map(|job| job.attr_path).as_deref(), Some("x"), "{way}");
            let (_, finish) = world.steps(|s| s.finish("x", 0, 31));
            let (job, _) = world.steps(|s| s.dequeue(30));
            assert_eq!(job.map(|job| job.attr_path).as_deref(), Some("y"), "{way}");
            let (job, nothing) = world.steps(|s| s.dequeue(30));
            assert_eq!(job, None, "{way}");
            costs.push([dequeue, finish, nothing]);
        }
        for (few, many) in costs[0].iter().zip(&costs[1]) {
            assert!(*many <= few * 3 / 2 + 20, "{way}: dequeue, finish, NOJOBS cost {costs:?} steps");
        }
        assert!(costs[1][0] < 1_000, "{way}: {costs:?}");
    }
}

#[test]
fn opening_and_the_first_answer_cost_the_same() {
    let mut costs = Vec::new();
    for rows in [10, 5_000] {
        let mut world = World::new();
        world.feed("f1", 1, names(rows));
        // A foreign commit makes the store read its heads anew, as it does at its start.
        world.foreign.execute_batch("DELETE FROM log").unwrap();
        world.foreign.execute_batch("INSERT INTO log VALUES ('x', 20, 21, 0)").unwrap();
        let steps = world.store.count_steps().unwrap();
        let job = world.group(|s| s.dequeue(30));
        assert!(job.is_some());
        costs.push(steps.load(Ordering::Relaxed));
    }
    assert!(costs[1] <= costs[0] * 3 / 2 + 20, "{costs:?}");
}

#[test]
fn a_slice_of_deleting_is_small() {
    let mut world = World::new();
    world.feed("f1", 1, names(20_000));
    world.group(|s| s.mark_deleted(&RunId::new("f1", 1)));
    let mut slices = 0;
    loop {
        let (slice, steps) = world.steps(|s| s.delete_slice(Duration::ZERO));
        assert!(steps < 20_000, "a slice of {steps} steps");
        slices += 1;
        if slice != Deletion::More {
            break;
        }
    }
    assert!(slices > 100);
}
