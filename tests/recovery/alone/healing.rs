//! A panic in any child heals within 1 s under load: no job is lost, and each worker has at most one
//! redelivered job, as after a kill (see `kill_nine.rs`).
//!
//! An injected panic hits an actor or a task between two steps, and a thread when it receives its next work.
//! The process's own clock measures from the exit of the child to the last restart of the queue's children,
//! which start one after the other. A start waits for commits, so stalls of the disk itself, which a probe
//! measures, are added to the limit. `rest_for_one` selects the children that are restarted.

use std::time::{Duration, Instant};

use orchestrator_harness::{
    Snapshot, TestEnv,
    load::{DiskProbe, Disruption, Fetchers, LoadRecord, SeededRng, WorkerPool, for_each_seed},
    try_http, wait_for,
};

use crate::panics::{exit_of, healed};

/// The queue's children in the order of their start.
const CHILDREN: [&str; 7] =
    ["queue_console", "queue_store", "housekeeper", "worker_socket", "reader", "fetcher_watcher", "inotify"];
const HEALED_MS: u64 = 1_000;
/// Maximum number of commits during a start; each may take as long as the probe's longest sync.
const COMMITS: u32 = 5;
/// Sync latency below which the limit is not extended.
const STALL: Duration = Duration::from_millis(200);

#[test]
fn a_panic_in_any_queue_child_heals() {
    for (at, child) in CHILDREN.into_iter().enumerate() {
        panics_heal(&format!("queue/{child}"), at);
    }
}

#[test]
fn a_panic_in_the_queue_supervisor_heals() {
    panics_heal("queue", 0);
}

#[test]
fn a_panic_in_the_admin_endpoint_leaves_the_queue_running() {
    panics_heal("admin", CHILDREN.len());
}

/// Makes `path` panic under load. The queue's children from index `first` on must restart, the others must
/// not.
fn panics_heal(path: &str, first: usize) {
    for_each_seed("ORCHESTRATOR_PANIC_ROUNDS", 1, |seed| {
        let mut rng = SeededRng::new(seed);
        let env = TestEnv::new(env!("CARGO_BIN_EXE_orchestrator"));
        let instance = env.start();
        let fetchers = Fetchers::start(&[env.input_dir()], 3, &mut rng);
        let crew = WorkerPool::start(&[env.socket()], 6, &mut rng);
        wait_for("jobs to be done", || (finished(&env)? > 50).then_some(()));

        let disk = DiskProbe::start(env.path());
        let from = Instant::now();
        env.inject_panic(path);
        let healed = wait_for("it to heal", || {
            query_the_housekeeper(&env);
            healed(&env, path)
        });
        let disruptions = vec![Disruption { instance: 0, from, to: Instant::now() }];
        assert_eq!(exit_of(&healed, path)["kind"], "panicked", "{healed:#}");
        assert!(exit_of(&healed, path)["reason"].as_str().is_some_and(|why| why.contains("injected panic")));
        assert_eq!(healed.node(path)["restarts"], 1);
        for (at, child) in CHILDREN.into_iter().enumerate() {
            let incarnation = &healed.node(&format!("queue/{child}"))["incarnation"];
            assert_eq!(*incarnation, if at < first { 1 } else { 2 }, "{child} after a panic in {path}");
        }
        let took = last_start(&healed, path) - exit_of(&healed, path)["at_ms"].as_u64().expect("a time");
        let stalled =
            Some(disk.longest_sync()).filter(|longest| *longest > STALL).unwrap_or_default() * COMMITS;
        let allowed = u128::from(HEALED_MS) + stalled.as_millis();
        assert!(u128::from(took) < allowed, "{path} took {took} ms to heal, not {allowed}: {healed:#}");

        let (present, ever) = fetchers.stop();
        LoadRecord::await_ingest(|sql| env.database().rows(sql), &present);
        let record = LoadRecord { present, ever, seen: crew.drain(), disruptions };
        let redelivered = record.check(|sql| env.database().rows(sql));
        assert!(instance.terminate().success(), "it did not stop well; log:\n{}", env.log());
        eprintln!(
            "{path}: healed in {took} ms, longest wait for an answer {:?}, {redelivered} of {} jobs redelivered",
            record.seen.longest_wait,
            record.seen.handouts.len()
        );
    });
}

/// Number of finished jobs, or None before the metric is registered.
fn finished(env: &TestEnv) -> Option<u64> {
    let tree = env.snapshot()?;
    let store = tree.node("queue/queue_store");
    let metric = store["metrics"].as_array()?.iter().find(|metric| metric["name"] == "finished")?;
    metric["value"].as_u64()
}

/// Time of the last start in the branch of `path`.
fn last_start(tree: &Snapshot, path: &str) -> u64 {
    let whole = if path == "admin" { "admin" } else { "queue" };
    let starts = tree.branch(whole).into_iter().filter_map(|node| node["started_ms"].as_u64());
    starts.max().expect("a start")
}

/// Gives the housekeeper work, so that it can panic.
fn query_the_housekeeper(env: &TestEnv) {
    // The housekeeper may be restarting.
    let _ = try_http(&env.admin_socket(), "POST", "/v1/consoles/queue/queue_console/ls", &[], "{}");
}
