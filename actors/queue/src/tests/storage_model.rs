//! Compares the stores with a naive model of the contract that shares no code with it, over
//! random sequences.
//!
//! `ORCHESTRATOR_TEST_SEEDS` sets how many sequences run, `ORCHESTRATOR_SEED` repeats one of them.

mod foreign;
mod model;

use fastrand::Rng;
use model::{Model, Picked};
use orchestrator_harness::load::for_each_seed;
use orchestrator_queue_rules::storage::{
    Batch, Bumped, Deletion, HandoutId, Job, Limit, Limits, Operation, Outcome, RunId, RunState,
    Storage as _, Upsert,
};
use std::sync::Arc;
use std::time::Instant;

use orchestrator_queue_sqlite::{Options, Synchronous};

use crate::tests::store::{Kind, SingleOperations as _, TestStore, group};

const FETCHERS: [&str; 3] = ["github", "repology", "upd"];
const HOLD: i64 = 50;

struct World {
    kind: Kind,
    store: TestStore,
    model: Model,
    rng: Rng,
    now: i64,
    attrs: u32,
    handouts: Vec<HandoutId>,
}

impl World {
    fn new(kind: Kind, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let allowed = rng.bool().then(|| [rng.u32(..3), rng.u32(..3)]);
        let limits = allowed.map(|[paths, fetchers]| {
            [
                Limit { attr_path: Some("pkg1*".to_owned()), fetcher: None, in_flight: paths },
                Limit { attr_path: None, fetcher: Some("re?ology".to_owned()), in_flight: fetchers },
            ]
        });
        let options = Options {
            hold_secs: HOLD,
            redeliver_after_lease: rng.bool(),
            synchronous: Synchronous::Normal,
            attempts: [0, 1, 7, 200_000][rng.usize(..4)],
            limits: Arc::new(Limits(limits.into_iter().flatten().collect())),
        };
        // PostgreSQL keeps at least as many attempts, and removes whole days of them.
        let attempts_max = match (kind, options.attempts) {
            (Kind::Postgres, 1..) => usize::MAX,
            (_, attempts) => usize::try_from(attempts).unwrap(),
        };
        let model = Model::new(HOLD, options.redeliver_after_lease, attempts_max, allowed);
        let store = TestStore::of(kind, options);
        if kind == Kind::Sqlite && rng.bool() {
            foreign::recreate_triggers(store.foreign());
        }
        let attrs = if rng.u8(..4) == 0 { 80 } else { 6 };
        Self { kind, store, model, rng, now: 1_000, attrs, handouts: Vec::new() }
    }

    fn attr(&mut self) -> String {
        // Paths of different jitter, some with common prefixes, one outside ASCII.
        match self.rng.u32(..self.attrs) {
            0 => "ünïcödé".to_owned(),
            n => format!("pkg{n}"),
        }
    }

    fn run(&mut self) -> RunId {
        RunId::new(FETCHERS[self.rng.usize(..FETCHERS.len())], self.rng.i64(1..5))
    }

    fn tick(&mut self) -> i64 {
        self.now += match self.rng.u8(..20) {
            // The database's clock is not set back.
            0 if self.kind == Kind::Sqlite => -self.rng.i64(0..100),
            1 => self.rng.i64(0..120),
            2 => HOLD,
            3..8 => 0,
            _ => 1,
        };
        self.now
    }

    /// One transaction, one foreign writer or one crash.
    fn step(&mut self) {
        match self.rng.u8(..10) {
            0..7 => self.group(),
            7 | 8 if self.kind == Kind::Sqlite => self.foreign_write(),
            _ => self.reopen(),
        }
        if self.rng.u8(..4) == 0 {
            self.compare_tables();
        }
    }

    fn group(&mut self) {
        let before = self.model.clone();
        self.store.begin().unwrap();
        for _ in 0..self.rng.usize(1..8) {
            self.operation();
        }
        match self.rng.u8(..12) {
            0 => {
                self.store.rollback().unwrap();
                self.model = before;
            }
            1 => {
                self.model = before;
                self.crash();
            }
            _ => self.store.commit().unwrap(),
        }
    }

    fn operation(&mut self) {
        match self.rng.u8(..38) {
            0..4 => self.upsert(),
            4..10 => self.enqueue(),
            10..18 => self.dequeue(),
            18..22 => self.finish(),
            22..25 => self.delivered(),
            25..27 => self.undo(),
            27 => self.mark_deleted(),
            28..31 => self.delete(),
            31..33 => self.bump(),
            33..37 => self.workers(),
            _ => self.requeue(),
        }
    }

    fn upsert(&mut self) {
        let (run, complete) = (self.run(), self.rng.bool());
        let done = self.store.upsert_run(&run, complete).unwrap();
        if self.model.must_wait(&run.fetcher, run.started) {
            assert_eq!(done, Upsert::Pending, "upsert of {run:?} beside its deleted rows");
        } else {
            assert_eq!(done, Upsert::Done, "upsert of {run:?}");
            self.model.upsert(&run.fetcher, run.started, complete);
        }
    }

    fn enqueue(&mut self) {
        let run = self.run();
        let lines: Vec<(String, String)> = (0..self.rng.usize(..self.attrs as usize))
            .map(|_| (self.attr(), format!("{} {}", self.rng.u8(..), self.rng.u8(..))))
            .collect();
        let batch = Batch::after(0, lines.clone());
        let mut at = 0;
        let known = self.model.enqueue(&run.fetcher, run.started, &lines);
        loop {
            let deadline = self.rng.bool().then(Instant::now);
            match self.store.enqueue(&run, &batch, at, deadline) {
                Ok(reached) => {
                    assert!(known, "an unknown run was taken");
                    assert!(reached > at || batch.len() == at, "no progress");
                    at = reached;
                }
                Err(error) => {
                    assert!(!known, "{error}");
                    return;
                }
            }
            if at == batch.len() {
                return;
            }
        }
    }

    /// A batch of several workers. PostgreSQL carries out the ends of jobs before the hand-outs.
    fn workers(&mut self) {
        let now = self.tick();
        let mut requests = Vec::new();
        for _ in 0..self.rng.usize(1..6) {
            let done = self.rng.bool().then(|| (self.attr(), self.rng.i64(0..3)));
            requests.push((done, self.rng.u8(..4) > 0));
        }
        let batch: Vec<_> = requests
            .iter()
            .map(|(done, ready)| Operation::Worker {
                done: done.as_ref().map(|(attr, code)| (attr.as_str(), *code)),
                connection: ready.then_some("1"),
            })
            .collect();
        let outcomes = self.store.serve(&batch, 0, now).unwrap();
        let mut ends: Vec<_> = requests.iter().map(|(done, _)| done.clone()).collect();
        if self.kind == Kind::Postgres {
            for end in &ends {
                self.end(end.as_ref(), now);
            }
            ends.fill(None);
        }
        for ((outcome, (_, ready)), end) in outcomes.into_iter().zip(requests).zip(ends) {
            let Outcome::Worker { job, .. } = outcome else { panic!("{outcome:?}") };
            self.end(end.as_ref(), now);
            if ready {
                self.compare_job(now, job);
            } else {
                assert_eq!(job, None, "nobody asked");
            }
        }
    }

    fn end(&mut self, done: Option<&(String, i64)>, now: i64) {
        if let Some((attr, code)) = done {
            self.model.finish(attr, *code, now);
        }
    }

    fn dequeue(&mut self) {
        let now = self.tick();
        let job = self.store.dequeue(now, "1").unwrap();
        self.compare_job(now, job);
    }

    fn compare_job(&mut self, now: i64, job: Option<Job>) {
        let got = job.as_ref().map(|job| (job.attr_path.as_str(), job.payload.as_str()));
        let id = job.as_ref().map(|job| job.handout.0).unwrap_or_default();
        match self.model.dequeue(now, got, id) {
            Picked::Right => {}
            Picked::Wrong(expected) => panic!("dequeue at {now} gave {got:?}, expected {expected:?}"),
        }
        self.handouts.extend(job.map(|job| job.handout));
    }

    fn finish(&mut self) {
        let (attr, code, now) = (self.attr(), self.rng.i64(..256), self.tick());
        let found = self.store.finish(&attr, code, now).unwrap().map(|finished| finished.seconds);
        assert_eq!(found, self.model.finish(&attr, code, now), "finish of {attr}");
    }

    fn handout(&mut self) -> HandoutId {
        let recent = self.handouts.len().saturating_sub(4);
        match self.handouts.len() {
            0 => HandoutId(1),
            len => self.handouts[self.rng.usize(recent..len)],
        }
    }

    fn delivered(&mut self) {
        let id = self.handout();
        let found = self.store.delivered(id).unwrap();
        assert_eq!(found, self.model.delivered(id.0), "delivery of {id:?}");
    }

    fn undo(&mut self) {
        let id = self.handout();
        let undone = self.store.undo(id).unwrap();
        assert_eq!(undone, self.model.undo(id.0), "undo of {id:?}");
    }

    fn mark_deleted(&mut self) {
        let run = self.run();
        let found = self.store.mark_deleted(&run).unwrap();
        assert_eq!(found, self.model.mark_deleted(&run.fetcher, run.started), "deleting {run:?}");
    }

    fn delete(&mut self) {
        let to_the_end = self.rng.bool();
        loop {
            match self.store.delete_slice(&|| false).unwrap() {
                Deletion::Idle => return assert_eq!(self.model.marked(), 0, "deleted runs were forgotten"),
                Deletion::More if to_the_end => {}
                Deletion::More => return,
                Deletion::Finished(run) => self.model.deleted(&run.fetcher, run.started),
            }
        }
    }

    fn requeue(&mut self) {
        let (attr, now) = (self.attr(), self.tick());
        let done = self.store.requeue(&attr, now).unwrap();
        assert_eq!((done.rows, done.was_in_flight), self.model.requeue(&attr, now), "requeue of {attr}");
    }

    fn bump(&mut self) {
        let attr = self.attr();
        let done = match self.store.bump(&attr).unwrap() {
            Bumped::Done => "done",
            Bumped::NothingWaits => "nothing waits",
            Bumped::TooMany => "too many",
        };
        assert_eq!(done, self.model.bump(&attr), "bump of {attr}");
    }

    fn reopen(&mut self) {
        if self.kind == Kind::Sqlite && self.rng.bool() {
            // A dequeue of the original in one transaction.
            let now = self.tick();
            if self.model.marked() == 0 {
                self.foreign_dequeue(now);
            }
        } else {
            self.crash();
        }
    }

    fn crash(&mut self) {
        let undone = self.store.crash();
        assert_eq!(undone, self.model.undo_undelivered(), "undone after a crash");
    }

    fn compare_tables(&mut self) {
        let text = |state: RunState| {
            format!("{} {} {}", state.run.fetcher, state.run.started, i64::from(state.complete))
        };
        let mut known: Vec<_> = group(&mut self.store, |s| s.known_runs()).into_iter().map(text).collect();
        known.sort();
        assert_eq!(known, self.model.runs_as_text(), "known runs");
        let live = match self.kind {
            Kind::Sqlite => {
                "NOT EXISTS (SELECT 1 FROM orchestrator_deleted_run AS d
                             WHERE d.fetcher_id = r.fetcher_id AND d.run_started = r.run_started)"
            }
            Kind::Postgres => "true",
        };
        let read = |sql: &str| self.store.texts(sql);
        let runs = format!(
            "SELECT name || ' ' || run_started || ' ' || is_complete
             FROM fetcher_runs AS r JOIN fetchers USING (fetcher_id) WHERE {live}"
        );
        assert_eq!(read(&runs), self.model.runs_as_text(), "runs");
        let queue = format!(
            "SELECT name || ' ' || run_started || ' ' || attr_path || '|' || payload || '|' || is_dequeued || '|'
                    || coalesce(CAST(last_started AS text), '-') || '|' || coalesce(CAST(order_jitter AS text), '-')
             FROM queue AS q JOIN fetcher_runs AS r
                 ON r.fetcher_id = q.fetcher_id AND r.run_started = q.fetcher_run_started
                 JOIN fetchers AS f ON f.fetcher_id = r.fetcher_id
             WHERE {live}"
        );
        assert_eq!(read(&queue), self.model.queue_as_text(), "queue");
        let log = "SELECT attr_path || ' ' || started || ' ' || coalesce(CAST(finished AS text), '-') || ' '
                          || coalesce(CAST(exit_code AS text), '-') FROM log";
        assert_eq!(read(log), self.model.log_as_text(), "log");
        let [attempt, bump] = match self.kind {
            Kind::Sqlite => ["orchestrator_attempt", "orchestrator_bump"],
            Kind::Postgres => ["attempt", "bump"],
        };
        let attempts = format!(
            "SELECT attr_path || ' ' || started || ' ' || handout_id || ' ' || coalesce(fetcher, '-') || ' '
                    || coalesce(CAST(previous_started AS text), '-') || ' '
                    || coalesce(CAST(previous_finished AS text), '-') || ' '
                    || coalesce(CAST(previous_exit_code AS text), '-') FROM {attempt}"
        );
        assert_eq!(read(&attempts), self.model.attempts_as_text(), "attempts");
        let bumps = format!("SELECT attr_path FROM {bump} WHERE handout_id IS NULL");
        assert_eq!(read(&bumps), self.model.bumps_as_text(), "bumps");
        if self.model.marked() == 0 {
            if self.kind == Kind::Sqlite {
                let groups = "SELECT format('%s %d %d %s %s %s', name, run_started, is_held,
                                  iif(started_key = -9223372036854775807 - 1, '-', started_key),
                                  iif(jitter_key = -9223372036854775807 - 1, '-', jitter_key), attr_path)
                              FROM orchestrator_ready JOIN fetchers USING (fetcher_id)";
                assert_eq!(read(groups), self.model.groups_as_text(), "groups");
            }
            assert_eq!(read("SELECT name FROM fetchers"), self.model.fetchers_as_text(), "fetchers");
        }
    }
}

fn agrees_with_the_model(kind: Kind, seeds_by_default: u64) {
    for_each_seed("ORCHESTRATOR_TEST_SEEDS", seeds_by_default, |seed| {
        let mut world = World::new(kind, seed);
        for _ in 0..150 {
            world.step();
        }
        world.compare_tables();
    });
}

#[test]
fn the_store_on_sqlite_agrees_with_the_model() {
    agrees_with_the_model(Kind::Sqlite, 20);
}

#[test]
fn the_store_on_postgres_agrees_with_the_model() {
    agrees_with_the_model(Kind::Postgres, 8);
}
