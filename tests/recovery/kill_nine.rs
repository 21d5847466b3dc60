//! Repeated kill -9 at random moments: no job is lost, at most one job per connection is redelivered, and the
//! database is valid for the original each time.
//!
//! In each round fetchers write, rename, replace and delete files, and workers take and finish jobs on kept
//! connections and on one per request. Kills come during starts, service, commits, reads and deletions. Then
//! the writers stop, the queue is drained, and the records of files and workers are checked.
//!
//! Checked from outside (`tests/harness/src/load/check.rs` has the rules):
//!
//! - *Lost* is a line that is in a file at the end and was neither handed out since it was written, by itself
//!   or by a newer run of its fetcher, nor is in the queue. A line whose file was deleted may or may not have
//!   been handed out.
//! - *Answered* is what a worker received. An answer sent before the kill can still be received after it, so
//!   a worker whose connection ended without an answer has none: its job must come again, and its DONE must
//!   be repeated.
//! - *Redelivered* is a line that is handed out again. Allowed is one per worker and kill: the job of the
//!   last answer that the worker received before the kill. Before any later answer to it, the queue knew that
//!   the job was delivered. (So the rule is stricter than one per connection: connections of one worker
//!   follow each other.)
//! - *In flight*: two workers have the same attribute path only after such a redelivery.
//! - *Acknowledged* is a DONE with an answer. It is in the log at the end with its own exit code, unless
//!   another DONE of that path was not over before it began. (One that had been lost on the way would have
//!   left its path held for twelve hours.) A DONE for a job that was taken back and is to be handed out again
//!   is a plain finish: it may find no log row.
//! - *Valid for the original*: after every kill a copy of database and write-ahead log opens with
//!   user_version 2, intact, foreign keys whole, the objects of CONTRACT QD08 to QD10 there by name,
//!   `last_started` = `log.started` (QD12), and our own table of groups equal to what the contract's tables
//!   say. The last attempt of each path agrees with its log row.
//!
//! Not covered: power cuts, because the page cache survives SIGKILL. A seed repeats the random choices, not
//! the timing.

use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

use orchestrator_harness::{
    Instance, Reply, TestEnv, assert_attempts_match_log, assert_valid_database, copy_database,
    load::{Disruption, Fetchers, LoadRecord, SeededRng, WorkerPool, for_each_seed},
    wait_for,
};

const FETCHERS: usize = 3;
const WORKERS: usize = 6;

#[test]
fn kills_lose_no_job_and_redeliver_one_per_connection_at_most() {
    for_each_seed("ORCHESTRATOR_KILL_ROUNDS", 3, round);
}

fn round(seed: u64) {
    let began = Instant::now();
    let mut rng = SeededRng::new(seed);
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let fetchers = Fetchers::start(&[env.input_dir()], FETCHERS, &mut rng);
    let crew = WorkerPool::start(&[env.socket()], WORKERS, &mut rng);

    let mut disruptions = Vec::new();
    let mut made = false;
    for _ in 0..3 + rng.below(5) {
        let instance = env.spawn();
        stay(&env, &instance, &mut rng);
        disruptions.push(kill(instance));
        let copy = copy_database(&env.database_path(), &env.path().join("copy"));
        let valid = copy.is_some_and(|copy| {
            let valid = assert_valid_database(&copy);
            if valid {
                assert_attempts_match_log(&copy);
            }
            valid
        });
        assert!(valid || !made, "the tables are gone");
        made = valid;
    }

    let instance = env.start();
    let (present, ever) = fetchers.stop();
    LoadRecord::await_ingest(|sql| env.database().rows(sql), &present);
    let record = LoadRecord { present, ever, seen: crew.drain(), disruptions };
    let redelivered = record.check(|sql| env.database().rows(sql));
    assert!(instance.terminate().success(), "it did not stop well; log:\n{}", env.log());
    assert!(assert_valid_database(&env.database_path()));
    assert_attempts_match_log(&env.database_path());
    eprintln!(
        "seed {seed}: {} kills, {} jobs, {} done, {redelivered} redelivered, {} lines at the end, {:?}",
        record.disruptions.len(),
        record.seen.handouts.len(),
        record.seen.dones.len(),
        record.present.len(),
        began.elapsed()
    );
}

/// Waits until the time of the kill: some during the start, some when service begins, most under load, often
/// during or just after a commit.
fn stay(env: &TestEnv, instance: &Instance, rng: &mut SeededRng) {
    let mut up_to = |ms: usize| Duration::from_micros(rng.below(1_000 * ms) as u64);
    let (start, service, load, commit) = (up_to(60), up_to(20), up_to(400), up_to(1));
    match rng.below(10) {
        0..2 => return sleep(start),
        2..4 => {
            instance.await_service(env);
            sleep(service);
        }
        _ => {
            instance.await_service(env);
            sleep(load);
        }
    }
    if rng.chance(60) {
        await_commit(env, commit);
    }
}

/// Waits until the write-ahead log grows (100 ms at most), and then for `further`.
fn await_commit(env: &TestEnv, further: Duration) {
    let log = env.path().join("queue.db-wal");
    let size = || fs::metadata(&log).map_or(0, |meta| meta.len());
    let (began, before) = (Instant::now(), size());
    while size() == before && began.elapsed() < Duration::from_millis(100) {}
    let grown = Instant::now();
    while grown.elapsed() < further {}
}

fn kill(instance: Instance) -> Disruption {
    let from = Instant::now();
    instance.kill_nine();
    Disruption { instance: 0, from, to: Instant::now() }
}

#[test]
fn the_queue_starts_after_kills_during_startup() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    env.write("f.1.txt", "alpha 0 1\n");
    for ms in [0, 1, 3, 6, 10, 15, 20, 30, 40] {
        let instance = env.spawn();
        sleep(Duration::from_millis(ms));
        instance.kill_nine();
    }
    let _instance = env.start();
    let mut worker = env.worker();
    wait_for("the job", || (worker.ready().attr_path() == "alpha").then_some(()));
}

/// A deletion in slices that a kill interrupts is resumed at the next start, and none of its rows is handed
/// out.
#[test]
fn an_interrupted_deletion_resumes_at_the_next_start() {
    const LINES: usize = 20_000;
    let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
    let text: String = (0..LINES).map(|i| format!("attr{i} 0 1\n")).collect();
    env.write("f.1.txt", text);
    let instance = env.start();
    let foreign = env.database();
    let count = || foreign.rows("SELECT count(*) FROM queue")[0].parse::<usize>().expect("a number");
    wait_for("the file to be read", || (count() == LINES).then_some(()));
    env.remove("f.1.txt");
    let left = wait_for("some rows to leave", || Some(count()).filter(|left| *left < LINES));
    instance.kill_nine();
    assert!(left > 0 && count() > 0, "all rows left at once");
    assert_eq!(foreign.rows("SELECT run_started FROM orchestrator_deleted_run"), ["1"]);

    let _instance = env.start();
    assert_eq!(env.worker().ready(), Reply::NoJobs);
    wait_for("the rest to leave", || (count() == 0).then_some(()));
    wait_for("the run to leave", || foreign.rows("SELECT name FROM fetchers").is_empty().then_some(()));
}
